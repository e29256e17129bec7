#!/usr/bin/env python3
"""Stands in for ssh and the board behind it: answers what the runner asks, or loses the line.

The folder FAKE_SSH has the board: boot_id, notes, console, kept/; `lose` has one action a line at
which the connection ends, each once; `reboot` one at which the board has rebooted before.
"""

import hashlib
import os
import shlex
import subprocess
import sys
import time
import uuid
from pathlib import Path

LOST = 255
board = Path(os.environ["FAKE_SSH"])
if "-O" in sys.argv:
    sys.exit(0)
said = shlex.split(sys.argv[-1])
shell, (script, *words) = said[:3], said[3:]
ACTIONS = {
    "tar xzf": "send",
    "start.sh": "start",
    "/console": "look",
    "tar cf": "fetch",
    "kernel/notes": "notes",
    "sha256sum": "digest",
    ".part": "upload",
    'kexec "$how" -l': "load",
    "kexec -e": "kexec",
    "boot_id": "boot_id",
}
action = next((name for text, name in ACTIONS.items() if text in script), "other")
with (board / "log").open("a") as log:
    log.write(f"{action}\n")


def taken(name: str) -> bool:
    """Whether a file has this action, in a line that is then removed."""
    path = board / name
    lines = path.read_text().split() if path.exists() else []
    if action not in lines:
        return False
    lines.remove(action)
    path.write_text("\n".join(lines))
    return True


data = sys.stdin.buffer.read()
if (board / "slow").exists():
    time.sleep(60)
if taken("reboot") or action == "kexec":
    (board / "boot_id").write_text(str(uuid.uuid4()))
if action == "kexec" and (board / "never").exists():
    (board / "gone").touch()
if taken("lose") or (board / "gone").exists():
    print("Connection reset by peer", file=sys.stderr)
    sys.exit(LOST)
out = sys.stdout.buffer
if action == "boot_id":
    out.write((board / "boot_id").read_bytes() + b"\n")
elif action == "look":
    out.write((board / "boot_id").read_bytes() + b"\n0\n")
    out.write((board / "console").read_bytes()[int(words[1]) - 1 :])
elif action == "notes":
    out.write((board / "notes").read_bytes())
elif action == "upload":
    (board / "uploaded").write_bytes(data)
elif action == "digest":
    out.write(hashlib.sha256((board / "uploaded").read_bytes()).hexdigest().encode() + b"  -\n")
elif action == "fetch":
    sys.exit(subprocess.run(["tar", "cf", "-", "."], cwd=board / "kept", check=False).returncode)
elif action == "load" and (board / "refuses").exists():
    print("kexec_load failed: Operation not permitted", file=sys.stderr)
    sys.exit(subprocess.run([*shell, "exit 255"], check=False).returncode)  # as kexec does
