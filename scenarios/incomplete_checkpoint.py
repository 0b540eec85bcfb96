"""A job is started again, and the last checkpoint lacks a part: its save was cut off, or the part is on another host.

Each new start fails in the same way, until somebody removes the folder by hand.

Seen in the wild: vllm-project/speculators#PR739 and AI-Hypercomputer/maxtext#PR5260 (a folder that is taken by its
name: `torch-trusted`) and huggingface/accelerate#3010 (the index of a checkpoint, on one host alone:
`torch-on-each-host`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults

BETWEEN_STEPS = (faults.Kill() @ at(rank=1, step=4, point="collective"),)

SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "saves from one place, and names the last whole checkpoint in a file"},
    job=Job(ranks=2, steps=6, data="digits", restarts=1),
    strikes=[faults.Kill() @ at(rank=0, step=4, point="save", visit=2)],
    cases=[
        Case("torch-trusted", "folders:trusted", expect=DETECTED),
        Case("torch-marked", "folders:marked", expect=SURVIVED),
        Case("torch-on-each-host", "folders:on_each_host", strikes=BETWEEN_STEPS, expect=DETECTED),
        Case("torch-in-one-place", "sharded:in_turn", strikes=BETWEEN_STEPS, expect=SURVIVED),
    ],
)
