"""One rank believes that the job has another number of ranks than it has.

Seen in the wild: pytorch/pytorch#52848 (every rank waits for ranks that nobody starts) and ultralytics/yolov5#4574
(more ranks come than are counted, and the barrier of the store waits for half an hour).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, hung

SCENARIO = Scenario(
    family="environment",
    without={"tensorflow": "the cluster is a list: see wrong_cluster"},
    job=Job(ranks=3, steps=5, deadline_s=5.0, data="digits"),
    cases=[
        Case(
            "torch-configured",
            "rendezvous:configured_world",
            control="rendezvous:launched_world",
            expect=hung(oracle="progress", rank=0, step=0, cause="world size mismatch"),
        ),
        Case("torch-launched", "rendezvous:launched_world", control="rendezvous:launched_world", expect=SURVIVED),
        Case("torch-compared", "rendezvous:compared_world", control="rendezvous:launched_world", expect=DETECTED),
    ],
)
