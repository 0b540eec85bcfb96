"""The connections between two ranks are reset inside the gradients' reduction, as by a firewall that forgets them.

The kernel of the rank aborts them, and tells the peer by a reset. New connections can be made at once.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

# A third rank, whose own connections hold, learns nothing of the one that is gone: it waits on in the old group.
FOR_TWO = (2,)

SCENARIO = Scenario(
    family="network",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.ResetConnections(peer=0) @ at(rank=1, step=3, point="collective")],
    cases=[
        Case("torch-plain", "digits_ddp:plain", expect=DETECTED),
        Case("torch-alone", "digits_ddp:alone", expect=silent(oracle="replicas", step=3, cause="replicas differ")),
        Case("torch-reconnecting", "digits_ddp:reconnecting", sizes=FOR_TWO, expect=SURVIVED),
        Case("torch-resuming", "digits_ddp:resuming", restarts=1, expect=SURVIVED),
    ],
)
