"""The agent's last records are made whatever memory the program has left itself."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import mmap
import resource
from breakrank_agent.agent.memory_limit import lifted

taken = int(open("/proc/self/statm").read().split()[0]) * mmap.PAGESIZE
resource.setrlimit(resource.RLIMIT_AS, (taken, resource.getrlimit(resource.RLIMIT_AS)[1]))
outcomes = []
for limit in ("lowered", "lifted", "lowered"):
    try:
        with lifted() if limit == "lifted" else open("/dev/null"):
            mmap.mmap(-1, 64 * 2**20).close()
        outcomes.append("taken")
    except OSError:
        outcomes.append("refused")
print(*outcomes)
"""


def test_a_soft_limit_is_lifted_for_as_long_as_parameters_are_read():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused", "taken", "refused"]
