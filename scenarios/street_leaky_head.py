"""A head of one's own behind DeepLab keeps the scores of every step for whoever wants to draw them."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

#: DeepLab is that of transformers, and Pillow draws the scenes.
NEEDS = ("transformers", "PIL")

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "see leaky_layer"},
    job=Job(ranks=2, steps=20, data="streets_128"),
    oracles=["ends", "progress", "finite", "replicas", "leak", "control"],
    cases=[
        Case(
            "torch-keeping",
            "street_memory:keeping_features",
            needs=NEEDS,
            control="street_memory:clearing_features",
            expect=silent(oracle="leak", rank=0, step=4, cause="leak"),
        ),
        Case("torch-clearing", "street_memory:clearing_features", needs=NEEDS, expect=SURVIVED),
    ],
)
