"""A rank gathers a metric that its peers have no samples for: how many collectives there are depends on the data.

Seen in the wild: Lightning-AI/pytorch-lightning#19106 (a key that is logged by the rank whose batch has it:
`torch-nines-of-some`), roboflow/rf-detr#PR1085 (as many reductions as there are states, on each rank others:
`torch-class-by-class`), pytorch/pytorch#145965 (a gather of objects that asks for more than an exabyte, as it takes
another tensor for a size: `torch-named-by-some`) and pytorch/pytorch#85234 (a gather of nothing, which killed the ranks
before it was mended: `torch-selections`).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, detected, hung

ORACLES = ("ends", "progress", "collectives", "finite", "replicas", "samples", "control")
#: The peers of the rank that gathers by itself are in their next step.
NEVER_FULL = hung(oracle="progress", step=4, cause="participant missing")
# Ten classes are dealt to two ranks as five and six. Three ranks have as many classes each, and other ones.
FOR_TWO = (2,)

SCENARIO = Scenario(
    family="collectives",
    oracles=ORACLES,
    without={"tensorflow": "its collectives are part of a step's graph, which all workers share"},
    job=Job(ranks=2, steps=5, data="digits"),
    cases=[
        Case("torch-nines-of-some", "metrics:nines_of_some", control="metrics:nines_of_all", expect=NEVER_FULL),
        Case("torch-nines-of-all", "metrics:nines_of_all", control="metrics:nines_of_all", expect=SURVIVED),
        Case(
            "torch-class-by-class",
            "metrics:class_by_class",
            control="metrics:all_classes",
            sizes=FOR_TWO,
            expect=NEVER_FULL,
        ),
        Case("torch-all-classes", "metrics:all_classes", control="metrics:all_classes", expect=SURVIVED),
        Case(
            "torch-named-by-some",
            "metrics:named_by_some",
            control="metrics:named_by_all",
            expect=detected(oracle="collectives", rank=-1, step=3, cause="collective added"),
        ),
        Case("torch-named-by-all", "metrics:named_by_all", control="metrics:named_by_all", expect=SURVIVED),
        Case("torch-selections", "metrics:selections", control="metrics:selections", expect=SURVIVED),
    ],
)
