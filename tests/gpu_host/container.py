"""A container: takes a witness lock on each of its GPUs, and says so in FOLDER/twice when another one has it."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path

folder, record, seconds, *gpus = sys.argv[1:]
pid = Path(record + ".pid")
pid.with_suffix(".new").write_text(str(os.getpid()))
pid.with_suffix(".new").replace(pid)
if not Path(record).exists():
    sys.exit(0)  # removed before it started
for gpu in gpus:
    file = os.open(Path(folder, f"witness-{gpu}"), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with Path(folder, "twice").open("a") as twice:
            twice.write(f"{gpu} in {record}\n")
with Path(folder, "ran").open("a") as ran:
    ran.write(",".join(gpus) + "\n")
time.sleep(float(seconds))
while Path(folder, "hold").exists():
    time.sleep(0.01)
sys.exit(1 if Path(folder, "fail").exists() and "GPU-0" in gpus else 0)
