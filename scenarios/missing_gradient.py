"""One rank's gradient is missing from an update: its batch passed a parameter by, or its own update was skipped.

Seen in the wild: facebookresearch/optimizers#PR149 and allenai/allennlp#3574 (ranks without a gradient for what their
batch passed by: `torch-reducing-what-there-is`), Lightning-AI/pytorch-lightning#12190 (a zero that no network has made,
for a batch without labels: `torch-zero-for-nothing`) and hpcaitech/ColossalAI#PR1175 (gradients that overflow on one
rank, which alone skips its step: `torch-wrapped`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

NOTHING_TO_APPLY = [faults.ZeroGradients() @ at(rank=1, step=3, point="optimize")]

SCENARIO = Scenario(
    family="numeric",
    without={"tensorflow": "see dropped_replica"},
    job=Job(ranks=3, steps=8, data="digits"),
    strikes=NOTHING_TO_APPLY,
    cases=[
        Case(
            "torch-wrapped",
            "wrapped:wrapped",
            expect=silent(oracle="replicas", rank=1, step=3, cause="replicas differ"),
        ),
        Case("torch-comparing", "wrapped:comparing", expect=DETECTED),
        Case(
            "torch-reducing-what-there-is",
            "experts:reducing_what_there_is",
            strikes=(),
            control="experts:reducing_all",
            expect=silent(oracle="replicas", rank=1, step=3, cause="unused parameter"),
        ),
        Case(
            "torch-zero-for-nothing",
            "wrapped:zero_for_nothing",
            strikes=(),
            control="wrapped:zero_of_the_scores",
            expect=silent(oracle="progress", rank=-1, step=3, cause="parameters frozen"),
        ),
        Case(
            "torch-zero-of-the-scores",
            "wrapped:zero_of_the_scores",
            strikes=(),
            control="wrapped:zero_of_the_scores",
            expect=SURVIVED,
        ),
        Case("torch-reducing-all", "experts:reducing_all", strikes=(), control="experts:reducing_all", expect=SURVIVED),
    ],
)
