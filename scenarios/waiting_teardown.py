"""A rank that fails waits for its peers before it leaves, and its peers wait for it in the step that it will never do.

Seen in the wild: mlc-ai/pith-train#PR31 (a rank that fails, and hangs as its process group is taken down).
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, hung

SCENARIO = Scenario(
    family="process",
    without={"tensorflow": "its workers have no barrier of their own: see early_exit"},
    job=Job(ranks=2, steps=5, data="digits"),
    cases=[
        Case(
            "torch-together",
            "averaging:torn_down_together",
            control="averaging:plain",
            expect=hung(oracle="progress", step=3, cause="participant missing"),
        ),
        Case("torch-alone", "averaging:torn_down_alone", control="averaging:plain", expect=DETECTED),
    ],
)
