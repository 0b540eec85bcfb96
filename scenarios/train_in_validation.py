"""Samples that are held out for a validation are trained on: it measures what was learnt by heart.

Ranks that draw by themselves which samples they hold out train on those of the others. In TensorFlow, a split behind a
shuffle is another one in each epoch.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

LEAKED = silent(oracle="samples", step=5, cause="validated on training")

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=2, steps=8, data="digits"),
    oracles=("ends", "progress", "finite", "replicas", "samples"),
    cases=[
        Case(
            "torch-tail-in-both",
            "validating:tail_in_both",
            control="validating:tail_held_out",
            expect=LEAKED,
        ),
        Case(
            "torch-tail-held-out",
            "validating:tail_held_out",
            control="validating:tail_held_out",
            expect=SURVIVED,
        ),
        Case(
            "torch-split-by-each-rank",
            "validating:split_by_each_rank",
            control="validating:split_alike",
            expect=LEAKED,
        ),
        Case("torch-split-alike", "validating:split_alike", control="validating:split_alike", expect=SURVIVED),
        Case(
            "tf-split-behind-the-shuffle",
            "validating_workers:split_behind_the_shuffle",
            framework="tensorflow",
            control="validating_workers:split_behind_one_order",
            expect=LEAKED,
        ),
        Case(
            "tf-split-by-each-worker",
            "validating_workers:split_by_each_worker",
            framework="tensorflow",
            control="validating_workers:split_behind_one_order",
            expect=LEAKED,
        ),
        Case(
            "tf-tail-in-both",
            "validating_workers:tail_in_both",
            framework="tensorflow",
            control="validating_workers:tail_held_out",
            expect=LEAKED,
        ),
        Case(
            "tf-split-behind-one-order",
            "validating_workers:split_behind_one_order",
            framework="tensorflow",
            control="validating_workers:split_behind_one_order",
            expect=SURVIVED,
        ),
        Case(
            "tf-tail-held-out",
            "validating_workers:tail_held_out",
            framework="tensorflow",
            control="validating_workers:tail_held_out",
            expect=SURVIVED,
        ),
    ],
)
