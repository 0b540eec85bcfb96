"""A proxy is set on the host of one worker: gRPC asks it for every connection to a peer.

Clusters that reach the internet through a proxy have `http_proxy` set; without `no_proxy` it is taken for peers, too.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, hung

SCENARIO = Scenario(
    family="environment",
    without={"torch": "its transport is gloo, and knows no proxy"},
    job=Job(ranks=2, steps=3, deadline_s=8.0, data="digits"),
    cases=[
        Case(
            "tf-through",
            "clusters:through_a_proxy",
            framework="tensorflow",
            control="clusters:past_the_proxy",
            expect=hung(oracle="progress", step=0, cause="proxy in path"),
        ),
        Case(
            "tf-past",
            "clusters:past_the_proxy",
            framework="tensorflow",
            control="clusters:past_the_proxy",
            expect=SURVIVED,
        ),
    ],
)
