"""A worker is forked from a rank whose parallel operators have started threads, which the worker then waits for.

Seen in the wild: pytorch/pytorch#17199 and pytorch/pytorch#41197 (a forked process that hangs in its first operator),
pytorch/pytorch#45198 (a loader's worker, after OpenMP had started) and huggingface/tokenizers#258 (a library with
threads, used before the loader forked).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, hung

SCENARIO = Scenario(
    family="process",
    without={"tensorflow": "its input pipelines are threads, and no processes"},
    job=Job(ranks=2, steps=4, data="digits", deadline_s=8.0),
    cases=[
        Case(
            "torch-forking-after-threads",
            "forked:forking_after_threads",
            control="forked:forking_before_threads",
            expect=hung(oracle="progress", rank=1, step=3, cause="no progress"),
        ),
        Case("torch-forking-before-threads", "forked:forking_before_threads", expect=SURVIVED),
    ],
)
