# Copies a tree by haul and shows what it copied and what failed: python3 copy.py SOURCE DEST
import json
import subprocess
import sys

with subprocess.Popen(["haul", "--json", "-aT", *sys.argv[1:]], stdout=subprocess.PIPE, text=True) as haul:
    for line in haul.stdout:
        one = json.loads(line)
        if one["event"] == "entry" and one["action"] == "copy":
            print("copied", one["source"])
        elif one["event"] == "error":
            print("failed", one["path"], one["message"])
sys.exit(haul.returncode)
