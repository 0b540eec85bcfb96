"""One worker takes no message as large as a gradient: the environment of its host limits what gRPC may receive.

TensorFlow asks for 2 GB, unless `TF_GRPC_DEFAULT_OPTIONS` sets another limit. The first weights that are sent do not
arrive, and the worker says why; its peers only learn that it has gone.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario

SCENARIO = Scenario(
    family="environment",
    without={"torch": "gloo has no limit to a message: see misconfigured_timeout"},
    job=Job(ranks=2, steps=5, deadline_s=30.0, data="digits"),
    cases=[
        Case(
            "tf-small-messages",
            "clusters:small_messages",
            framework="tensorflow",
            control="clusters:large_messages",
            expect=DETECTED,
        ),
        Case(
            "tf-large-messages",
            "clusters:large_messages",
            framework="tensorflow",
            control="clusters:large_messages",
            expect=SURVIVED,
        ),
    ],
)
