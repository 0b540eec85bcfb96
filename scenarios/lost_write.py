"""The power fails in the middle of training: all ranks are gone, and of their checkpoints only what an fsync reached.

The content of a file is as of its last fsync, and a rename is undone without an fsync of the folder.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults

SCENARIO = Scenario(
    family="storage",
    job=Job(ranks=2, steps=6, data="digits", restarts=1),
    strikes=[faults.LoseWrites() @ at(rank="all", step=4, point="collective")],
    cases=[
        Case("torch-unsynced", "durable:unsynced", expect=SURVIVED),
        Case("torch-content-synced", "durable:content_synced", expect=SURVIVED),
        Case("torch-name-synced", "durable:name_synced", expect=DETECTED),
        Case("torch-synced", "durable:synced", expect=SURVIVED),
    ],
)
