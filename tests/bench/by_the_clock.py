"""A fault by the clock, as of a tool that knows no step: it kills rank 1 so many seconds after the rank was started.

`python by_the_clock.py RUNS SECONDS` waits for the next run in the folder RUNS.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path


def started(runs: Path, known: set[Path]) -> tuple[int, float]:
    """Return pid and start of rank 1 of the next run, as a tool learns them from the program that starts the job."""
    while True:
        for record in set(runs.glob("*/conductor.jsonl")) - known:
            for line in record.read_text().splitlines(keepends=True):
                event = json.loads(line) if line.endswith("\n") else {}
                if event.get("kind") == "spawned" and event["rank"] == 1:
                    return event["pid"], event["t"]
        time.sleep(0.001)


def main() -> None:
    runs, delay = Path(sys.argv[1]), float(sys.argv[2])
    known = set(runs.glob("*/conductor.jsonl"))
    print("ready", flush=True)
    pid, began = started(runs, known)
    time.sleep(max(0.0, began + delay - time.monotonic()))
    # The kill may come too late, when the job is over.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
