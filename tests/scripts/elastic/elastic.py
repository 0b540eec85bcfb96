"""One function of the program `regrown`: elastic.py FUNCTION [steady]. Without `steady` it asks for other nodes.

In step 4, the world of two loses the node of its rank 1. In step 7, the rank that is left asks for a node, and waits.
"""

import os
import signal
import sys
from pathlib import Path

import regrown

step = regrown.Owned.step


def step_or_ask(owned):
    """Make a step, or ask the launcher for another world and wait for it."""
    done = int(regrown.LAST.read_text()) if regrown.LAST.exists() else 0
    if (done, owned.world, owned.rank) == (3, 2, 1):
        ask("lost", str(os.getppid()))
    if (done, owned.world) == (6, 1):
        ask("wanted", "")
    step(owned)


def ask(name, text):
    """Write a file, all of it at once, and do nothing more."""
    Path("asked").write_text(text)
    os.rename("asked", name)
    while True:
        signal.pause()


if "steady" not in sys.argv:
    regrown.Owned.step = step_or_ask
getattr(regrown, sys.argv[1])()
