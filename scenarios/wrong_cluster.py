"""One worker believes in another cluster than the others: TF_CONFIG is wrong on its host.

A worker whose configuration cannot be right fails at once; its peers, and all others, wait without a limit while the
strategy is constructed.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, hung

SCENARIO = Scenario(
    family="environment",
    without={"torch": "see wrong_world_size, missing_rank and port_in_use"},
    job=Job(ranks=3, steps=3, deadline_s=10.0, data="digits"),
    cases=[
        Case(
            f"tf-{name}",
            f"clusters:{program}",
            framework="tensorflow",
            control="clusters:launched",
            # A third worker would, by luck, still be told or already be alone when the first one has given up.
            ranks=2 if program == "doubled" else None,
            # A peer of workers that have given up is told so at once, or by the cluster's own watch ten seconds later.
            patience_s=20.0 if expect is DETECTED else None,
            expect=expect,
        )
        for name, program, expect in (
            ("launched", "launched", SURVIVED),
            ("index-beyond", "beyond", DETECTED),
            ("index-twice", "doubled", DETECTED),
            ("worker-too-many", "one_more", hung(oracle="progress", rank=0, step=0, cause="rank missing")),
            ("other-list", "other_list", hung(oracle="progress", rank=0, step=0, cause="master mismatch")),
            ("own-address", "own_address", DETECTED),
        )
    ],
)
