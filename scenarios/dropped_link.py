"""The connections between two ranks are cut inside the gradients' all-reduce: once, and for good. Nobody dies.

Seen in the wild: pytorch/pytorch#44353 (an error caught on a rank, and training that goes on without the others).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

ONCE = [faults.DropLink(peer=0) @ at(rank=1, step=3, point="collective")]
FOR_GOOD = [faults.DropLink(peer=0, lasting=True) @ at(rank=1, step=3, point="collective")]

WENT_ON_ALONE = silent(oracle="replicas", step=3, cause="replicas differ")
FORGOT = silent(oracle="samples", cause="samples duplicated")

# A third rank, whose own connections hold, learns nothing of the one that is gone: it waits on in the old group.
FOR_TWO = (2,)
# In a ring of three or more, rank 0 waits for what the last rank sends, and not for rank 1: nothing is on its way where
# the connection is cut, and gRPC makes another one before it is needed.
UNNOTICED = {3: SURVIVED}

SCENARIO = Scenario(
    family="network",
    job=Job(ranks=2, steps=8, data="digits"),
    strikes=ONCE,
    cases=[
        Case("torch-plain", "digits_ddp:plain", expect=DETECTED),
        Case("torch-alone", "digits_ddp:alone", expect=WENT_ON_ALONE),
        Case("torch-reconnecting", "digits_ddp:reconnecting", sizes=FOR_TWO, expect=SURVIVED),
        Case("torch-forgetful", "digits_ddp:forgetful", restarts=1, expect=FORGOT),
        Case("torch-resuming", "digits_ddp:resuming", restarts=1, expect=SURVIVED),
        Case("torch-plain-for-good", "digits_ddp:plain", restarts=1, strikes=FOR_GOOD, expect=DETECTED),
        Case("torch-alone-for-good", "digits_ddp:alone", strikes=FOR_GOOD, expect=WENT_ON_ALONE),
        Case(
            "torch-reconnecting-for-good",
            "digits_ddp:reconnecting",
            sizes=FOR_TWO,
            strikes=FOR_GOOD,
            expect=DETECTED,
        ),
        Case("torch-resuming-for-good", "digits_ddp:resuming", restarts=1, strikes=FOR_GOOD, expect=DETECTED),
        Case("tf-plain", "workers:plain", framework="tensorflow", expect=DETECTED, at=UNNOTICED),
        Case(
            "tf-plain-for-good",
            "workers:plain",
            framework="tensorflow",
            strikes=FOR_GOOD,
            expect=DETECTED,
            at=UNNOTICED,
        ),
    ],
)
