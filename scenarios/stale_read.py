"""A rank goes on reading the old version of a file that a peer has replaced, as from the cache of a client of NFS.

New names do not come to it either: a file with the step in its name is missed, and not taken for another one.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="storage",
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.ServeStale(folder="published") @ at(rank=1, step=3, point="load")],
    cases=[
        Case(
            "torch-one-name",
            "published:one_name",
            control="published:broadcast",
            expect=silent(oracle="replicas", rank=1, step=4, cause="settings differ"),
        ),
        Case("torch-name-of-step", "published:name_of_step", expect=DETECTED),
        Case("torch-with-digest", "published:with_digest", expect=DETECTED),
        Case("torch-broadcast", "published:broadcast", expect=SURVIVED),
        Case(
            "tf-one-name",
            "published_workers:one_name",
            framework="tensorflow",
            expect=silent(oracle="replicas", rank=1, step=4, cause="settings differ"),
        ),
        Case("tf-name-of-step", "published_workers:name_of_step", framework="tensorflow", expect=DETECTED),
    ],
)
