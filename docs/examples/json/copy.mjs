// Copies a tree by haul and shows what it copied and what failed: node copy.mjs SOURCE DEST
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const [source, dest] = process.argv.slice(2);
const haul = spawn("haul", ["--json", "-aT", source, dest], { stdio: ["ignore", "pipe", "inherit"] });
haul.on("close", (status) => { process.exitCode = status ?? 1; });
for await (const line of createInterface({ input: haul.stdout })) {
  const one = JSON.parse(line);
  if (one.event === "entry" && one.action === "copy") console.log("copied", one.source);
  if (one.event === "error") console.log("failed", one.path, one.message);
}
