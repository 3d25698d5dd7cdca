// Copies a tree by haul and shows what it copied and what failed: go run copy.go SOURCE DEST
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

type event struct {
	Event, Action, Source, Path, Message string
}

func main() {
	haul := exec.Command("haul", "--json", "-aT", os.Args[1], os.Args[2])
	haul.Stderr = os.Stderr
	out, _ := haul.StdoutPipe()
	if err := haul.Start(); err != nil {
		panic(err)
	}
	for lines := json.NewDecoder(out); ; {
		var one event
		if err := lines.Decode(&one); err == io.EOF {
			break
		} else if err != nil {
			panic(err)
		}
		switch {
		case one.Event == "entry" && one.Action == "copy":
			fmt.Println("copied", one.Source)
		case one.Event == "error":
			fmt.Println("failed", one.Path, one.Message)
		}
	}
	if haul.Wait() != nil {
		os.Exit(1)
	}
}
