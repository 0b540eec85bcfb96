"""The cause of an error, and the user's line, as they stand in the messages of frameworks."""

from __future__ import annotations

import pytest

from breakrank.analysis.error_words import cause, users_line
from breakrank_agent.protocol.shortened import shortened

NODE = "{{function_node __wrapped__GatherV2_device_/job:localhost/replica:0/task:0/device:CPU:0}}"
GRAPH = """Graph execution error:

Detected at node CheckNumerics defined at (most recent call last):
  File "/home/me/train.py", line 9, in <module>

  File "/usr/lib/python3.11/site-packages/keras/src/trainer.py", line 399, in fit

loss is bad : Tensor had Inf values
\t [[{{node CheckNumerics}}]] [Op:__inference_g_14]"""
QUOTED = """Graph execution error:

Detected at node 'MatMul' defined at (most recent call last):
    File "/home/me/train.py", line 9, in <module>
      model.fit(data)
Node: 'MatMul'
Matrix size-incompatible: In[0]: [2,3], In[1]: [2,3]
\t [[{{node MatMul}}]]"""
PIPELINE = f"""{NODE} ValueError: bad sample 7
Traceback (most recent call last):

  File "/usr/lib/python3.11/site-packages/tensorflow/python/ops/script_ops.py", line 269, in __call__
    ret = func(*args)

  File "/home/me/data.py", line 16, in samples
    raise ValueError("bad sample 7")

ValueError: bad sample 7


\t [[{{{{node PyFunc}}}}]] [Op:IteratorGetNext] name: """
ROOTS = """2 root error(s) found.
  (0) INVALID_ARGUMENT:  label 7 is out of range
\t [[{{node loss}}]]
  (1) CANCELLED:  Function was cancelled
0 successful operations."""


@pytest.mark.parametrize(("message", "said"), [
    (f"{NODE} indices = 7 is not in [0, 3) [Op:GatherV2] name: ", "indices = 7 is not in [0, 3)"),
    (GRAPH, "loss is bad : Tensor had Inf values"),
    (QUOTED, "Matrix size-incompatible: In[0]: [2,3], In[1]: [2,3]"),
    (PIPELINE, "ValueError: bad sample 7"),
    (ROOTS, "label 7 is out of range"),
    ("[/pytorch/gloo/pair.cc:547] Connection closed by peer [127.0.0.1]:4", "Connection lost to PEER"),
    ("[/p/gloo/pair.cc:9] Read error [::1]:24749: Connection reset by peer. This is", "Connection lost to PEER"),
    ("[/p/gloo/pair.cc:9] writev [10.0.0.7]:80: Broken pipe", "Connection lost to PEER"),
    ("recv failed on SocketImpl(fd=4, addr=[localhost]:40, remote=[localhost]:35): no", "recv failed on PEER: no"),
    ("UNAVAILABLE: ipv4:127.0.0.1:3812: Failed to connect", "UNAVAILABLE: PEER: Failed to connect"),
    ("worker (pid(s) 12, 13) left <Thing at 0x7f21ab3c>", "worker (pid N) left <Thing at ADDRESS>"),
    ("version 1.2.3 at train.py:1234", "version 1.2.3 at train.py:1234"),
    ("the batch is empty. Use another one", "the batch is empty"),
    ("\n  two lines\nof the user's", "two lines"),
    ("Graph execution error:", "Graph execution error:"),
    ("", ""),
])  # fmt: skip
def test_the_cause_is_said_without_what_the_framework_puts_round_it(message, said):
    assert cause(message) == said


FRAMES = [["/home/me/train.py", 3, "main"], ["/usr/lib/python3.11/site-packages/torch/nn/module.py", 90, "call"]]


@pytest.mark.parametrize(("message", "line"), [
    (GRAPH, "train.py:9"),
    (PIPELINE, "data.py:16"),
    ("label 7 is out of range", "train.py:3"),
])  # fmt: skip
def test_the_line_is_the_innermost_of_the_users(message, line):
    assert users_line(message, FRAMES) == line
    assert users_line("", FRAMES[1:]) == ""


def test_a_long_message_keeps_its_cause_at_the_end():
    long = GRAPH.replace(
        "\n\nloss", "\n" + '\n  File "/usr/lib/python3/site-packages/a.py", line 1, in f\n' * 200 + "\nloss"
    )
    assert cause(shortened(long)) == "loss is bad : Tensor had Inf values"
    assert len(shortened(long)) <= 2000 < len(long) and shortened("short") == "short"
