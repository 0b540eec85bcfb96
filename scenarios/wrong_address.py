"""A rank announces itself by a name that its peers cannot look up, or looks for an interface that its host lacks.

The name is looked up again and again until the time-out of the process group, which is 30 minutes by default.

Seen in the wild: pytorch/pytorch#150532 (a node that goes by its own name, and all wait: `torch-own-name`) and
sgl-project/sglang#3226 (the wrong network interface: `torch-own-interface`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, hung

SCENARIO = Scenario(
    family="environment",
    without={"tensorflow": "its addresses are a list: see wrong_cluster"},
    job=Job(ranks=2, steps=4, deadline_s=5.0, data="digits"),
    cases=[
        Case(
            "torch-own-name",
            "rendezvous:own_name",
            control="rendezvous:own_address",
            expect=hung(oracle="progress", cause="no progress"),
        ),
        Case("torch-own-address", "rendezvous:own_address", control="rendezvous:own_address", expect=SURVIVED),
        Case("torch-own-interface", "rendezvous:own_interface", control="rendezvous:launched_world", expect=DETECTED),
    ],
)
