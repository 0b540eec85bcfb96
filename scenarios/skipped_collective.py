"""A branch that not all ranks take has a collective in it: the others wait for it, or pair it with the next one.

Seen in the wild: pytorch/audio#3749 (a rank returns early on a loss that is NaN, and leaves its all-gather out:
`torch-by-hand`), KempnerInstitute/KempnerForge#49 (some ranks leave a broadcast out: `torch-broadcast-of-one`) and
pytorch/pytorch#138322 (one rank, a barrier: `torch-then-barrier`).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, detected, faults, hung, silent

#: The first of two gradients of the same shape: the peers pair theirs with the second, and are never told.
SKIPPED = [faults.SkipCollective() @ at(rank=1, step=3, point="collective")]

OFF_BY_ONE = silent(oracle="control", rank=1, step=3, cause="wrong result")

#: With the oracle `collectives`, which judges the laws, the log has the inputs and outputs of each collective.
ORACLES = ("ends", "progress", "collectives", "finite", "replicas", "samples", "control", "checkpoint")
OUT_OF_TURN = detected(oracle="collectives", rank=1, step=3, cause="calls misaligned")
NEVER_FULL = hung(oracle="progress", step=3, cause="participant missing")

SCENARIO = Scenario(
    family="collectives",
    oracles=ORACLES,
    job=Job(ranks=2, steps=6, data="digits", patience_s=5.0),
    strikes=SKIPPED,
    cases=[
        Case("torch-by-hand", "averaging:plain", expect=OFF_BY_ONE),
        Case("torch-meeting", "averaging:met", expect=OUT_OF_TURN),
        Case(
            "torch-then-barrier",
            "averaging:logged_by_some",
            strikes=(),
            control="averaging:logged_by_all",
            expect=NEVER_FULL,
        ),
        Case(
            "torch-then-barrier-together",
            "averaging:logged_by_all",
            strikes=(),
            control="averaging:logged_by_all",
            expect=SURVIVED,
        ),
        Case(
            "torch-broadcast-of-one",
            "averaging:settings_sent_by_one",
            strikes=(),
            control="averaging:settings_sent_to_all",
            expect=NEVER_FULL,
        ),
        Case(
            "torch-broadcast-to-all",
            "averaging:settings_sent_to_all",
            strikes=(),
            control="averaging:settings_sent_to_all",
            expect=SURVIVED,
        ),
        Case(
            "tf-without-one",
            "workers:without_one",
            framework="tensorflow",
            strikes=(),
            control="workers:plain",
            expect=detected(oracle="collectives", rank=-1, step=3, cause="collective skipped"),
        ),
        Case(
            "tf-with-all",
            "workers:plain",
            framework="tensorflow",
            strikes=(),
            control="workers:plain",
            expect=SURVIVED,
        ),
    ],
)
