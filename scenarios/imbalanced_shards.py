"""Whole files are given to ranks, and one rank has a file more than the others.

Each cure that goes by the number of batches has its price: the ranks that are through wait for ever, samples are left
out, or samples of the others count twice.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, hung, silent

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=2, steps=12, deadline_s=10.0, data="digits"),
    oracles=("ends", "progress", "finite", "replicas", "samples"),
    cases=[
        Case(
            "torch-by-files",
            "streamed:by_files",
            control="streamed:by_samples",
            expect=hung(oracle="progress", rank=0, step=6, cause="participant missing"),
        ),
        Case(
            "torch-stopping-at-the-shortest",
            "streamed:stopping_at_the_shortest",
            control="streamed:by_samples",
            expect=silent(oracle="samples", cause="samples lost"),
        ),
        Case(
            "torch-repeating-the-short",
            "streamed:repeating_the_short",
            control="streamed:by_samples_in_small_batches",
            expect=silent(oracle="samples", cause="samples duplicated"),
        ),
        Case("torch-joining", "streamed:joining", control="streamed:joining", expect=SURVIVED),
        Case("torch-by-samples", "streamed:by_samples", control="streamed:by_samples", expect=SURVIVED),
        Case(
            "torch-by-samples-in-small-batches",
            "streamed:by_samples_in_small_batches",
            control="streamed:by_samples_in_small_batches",
            expect=SURVIVED,
        ),
        # The worker that is through ends well, with the samples of its own files alone.
        Case(
            "tf-by-files",
            "epochs_workers:by_files",
            framework="tensorflow",
            control="epochs_workers:by_samples_in_small_batches",
            expect=silent(oracle="samples", rank=1, step=1, cause="samples lost"),
        ),
        Case(
            "tf-stopping-at-the-shortest",
            "epochs_workers:stopping_at_the_shortest",
            framework="tensorflow",
            control="epochs_workers:by_samples",
            expect=silent(oracle="samples", cause="samples lost"),
        ),
        Case(
            "tf-repeating-the-short",
            "epochs_workers:repeating_the_short",
            framework="tensorflow",
            control="epochs_workers:by_samples_in_small_batches",
            expect=silent(oracle="samples", cause="samples duplicated"),
        ),
        Case(
            "tf-by-samples",
            "epochs_workers:by_samples",
            framework="tensorflow",
            control="epochs_workers:by_samples",
            expect=SURVIVED,
        ),
        Case(
            "tf-by-samples-in-small-batches",
            "epochs_workers:by_samples_in_small_batches",
            framework="tensorflow",
            control="epochs_workers:by_samples_in_small_batches",
            expect=SURVIVED,
        ),
    ],
)
