"""The power fails in the middle of training: all ranks are gone, and of their checkpoints only what an fsync reached.

The content of a file is as of its last fsync, and a rename is undone without an fsync of the folder.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, detected, faults, silent

LOST = silent(oracle="checkpoint", rank=0, step=3, cause="checkpoint lost")

SCENARIO = Scenario(
    family="storage",
    job=Job(ranks=2, steps=6, data="digits", restarts=1),
    strikes=[faults.LoseWrites() @ at(rank="all", step=4, point="collective")],
    cases=[
        Case("torch-unsynced", "durable:unsynced", expect=LOST),
        Case("torch-content-synced", "durable:content_synced", expect=LOST),
        Case(
            "torch-name-synced",
            "durable:name_synced",
            expect=detected(oracle="checkpoint", rank=0, step=3, cause="checkpoint lost"),
        ),
        Case("torch-synced", "durable:synced", expect=SURVIVED),
        Case("tf-unsynced", "guarded_workers:trusting", framework="tensorflow", expect=LOST),
        Case("tf-synced", "guarded_workers:synced", framework="tensorflow", expect=SURVIVED),
    ],
)
