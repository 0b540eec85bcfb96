"""Workers of a loader, or the loaders of all ranks, draw the same random numbers: they augment alike.

A generator that a dataset holds is copied into each worker in one state. A seed made of the worker's number alone is
the same on each rank. In TensorFlow, a seed without state gives each sample the numbers of the first one.

Seen in the wild: pytorch/pytorch#5059 (NumPy's generator, alike in all workers) and huggingface/transformers#37932
(seeds of workers that leave out the rank).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

IN_WORKERS = silent(oracle="samples", cause="alike in workers")

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=2, steps=10, data="digits"),
    oracles=("ends", "progress", "finite", "replicas", "samples"),
    cases=[
        Case(
            "torch-copies-of-a-generator",
            "drawing:copies_of_a_generator",
            control="drawing:seed_of_each_worker",
            expect=IN_WORKERS,
        ),
        Case(
            "torch-one-seed-for-workers",
            "drawing:one_seed_for_workers",
            control="drawing:seed_of_each_worker",
            expect=IN_WORKERS,
        ),
        Case(
            "torch-seed-without-the-rank",
            "drawing:seed_without_the_rank",
            control="drawing:seed_of_each_worker",
            expect=silent(oracle="samples", cause="alike on ranks"),
        ),
        Case(
            "torch-seed-of-each-worker",
            "drawing:seed_of_each_worker",
            control="drawing:seed_of_each_worker",
            expect=SURVIVED,
        ),
        Case(
            "torch-seed-of-the-loader",
            "drawing:seed_of_the_loader",
            control="drawing:seed_of_the_loader",
            expect=SURVIVED,
        ),
        Case(
            "tf-one-seed-for-samples",
            "epochs_workers:one_seed_for_samples",
            framework="tensorflow",
            control="epochs_workers:seed_of_each_sample",
            expect=silent(oracle="samples", step=1, cause="samples changed"),
        ),
        Case(
            "tf-one-seed-for-workers",
            "epochs_workers:one_seed_for_workers",
            framework="tensorflow",
            control="epochs_workers:seed_of_each_sample",
            expect=silent(oracle="samples", rank=1, step=1, cause="samples changed"),
        ),
        Case(
            "tf-seed-of-each-sample",
            "epochs_workers:seed_of_each_sample",
            framework="tensorflow",
            control="epochs_workers:seed_of_each_sample",
            expect=SURVIVED,
        ),
    ],
)
