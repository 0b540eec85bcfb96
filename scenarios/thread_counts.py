"""One rank computes with more threads: it adds up the same numbers in another order."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

#: The environment of the ranks, with that of rank 1 alone.
MORE_THREADS = {"SLURM_CPUS_PER_TASK": "1", "SLURM_CPUS_PER_TASK@1": "2"}

SCENARIO = Scenario(
    family="environment",
    without={"tensorflow": "its threads are set before it starts: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        Case(
            "torch-alone",
            "surroundings:centred_alone",
            control="surroundings:centred_together",
            expect=silent(oracle="replicas", step=1, cause="replicas differ from the start"),
            environment=MORE_THREADS,
        ),
        Case(
            "torch-together",
            "surroundings:centred_together",
            control="surroundings:centred_together",
            expect=SURVIVED,
            environment=MORE_THREADS,
        ),
    ],
)
