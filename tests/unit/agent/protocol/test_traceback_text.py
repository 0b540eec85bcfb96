"""Tracebacks as text: the innermost exception, as each way brings it from another process."""

from __future__ import annotations

import textwrap

import pytest

from breakrank_agent.protocol.traceback_text import innermost

SPAWN = """

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/lib/spawn.py", line 87, in _wrap
    fn(i, *args)
    ~~^^^^^^^^^^
  File "train.py", line 21, in work
    raise shop.errors.EmptyError("the batch is empty")
shop.errors.EmptyError: the batch is empty
  it has no rows
"""
LOADER = """Caught KeyError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "data.py", line 7, in __getitem__
    return self.rows[index]
KeyError: 9
"""
FUTURE = '''
"""
Traceback (most recent call last):
  File "x.py", line 3, in f
    raise ValueError("a: b")
ValueError: a: b
"""'''
ELASTIC = """
============================================================
work FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  rank      : 0 (local_rank: 0)
  traceback : Traceback (most recent call last):
    File "x.py", line 13, in work
      raise OSError("disk is gone")
  OSError: disk is gone
============================================================"""
CHAINED = """Traceback (most recent call last):
  File "x.py", line 1, in f
    g()
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "x.py", line 4, in f
    raise RuntimeError
RuntimeError
"""


@pytest.mark.parametrize(
    ("text", "kind", "message", "last"),
    [
        (SPAWN, "EmptyError", "the batch is empty\n  it has no rows", ["train.py", 21, "work"]),
        (LOADER, "KeyError", "9", ["data.py", 7, "__getitem__"]),
        (f"{SPAWN}\n{LOADER}", "KeyError", "9", ["data.py", 7, "__getitem__"]),
        (FUTURE, "ValueError", "a: b", ["x.py", 3, "f"]),
        (ELASTIC, "OSError", "disk is gone", ["x.py", 13, "work"]),
        (CHAINED, "RuntimeError", "", ["x.py", 4, "f"]),
        (
            textwrap.indent(SPAWN, "[rank1]: "),
            "EmptyError",
            "the batch is empty\n  it has no rows",
            ["train.py", 21, "work"],
        ),
    ],
)
def test_the_innermost_exception_is_found(text, kind, message, last):
    told = innermost(text)
    assert (told.type, told.message, told.frames[-1]) == (kind, message, last)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the batch is empty",
        "Traceback (most recent call last):",
        'Traceback (most recent call last):\n  File "x.py", line 3, in f\n    cut o',
        "see Traceback (most recent call last): above",
    ],
)
def test_a_text_without_a_whole_traceback_says_nothing(text):
    assert innermost(text) is None
