"""One rank chooses another backend than the others, since its host is not made like theirs."""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario

SCENARIO = Scenario(
    family="environment",
    without={"tensorflow": "its workers have one transport, gRPC"},
    job=Job(ranks=2, steps=5, deadline_s=5.0, data="digits"),
    cases=[
        Case("torch-own", "rendezvous:own_backend", control="rendezvous:common_backend", expect=DETECTED),
        Case("torch-common", "rendezvous:common_backend", control="rendezvous:common_backend", expect=SURVIVED),
    ],
)
