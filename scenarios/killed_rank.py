"""A rank is killed in the middle of training: inside the gradients' all-reduce, and between it and the update.

Seen in the wild: pytorch/pytorch#17113 (one rank dies, and the others: `torch-plain`), pytorch/pytorch#44353 (an error
caught on one rank, and training that goes on without the others: `torch-alone`), huggingface/accelerate#PR4071
(resuming within an epoch with the sampler of another one: `torch-forgetful`) and huggingface/transformers#PR23111
(resuming without the whole state of the optimizer: `torch-sharded-weights-only`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

IN_THE_REDUCTION = [faults.Kill() @ at(rank=1, step=3, point="collective")]
BEFORE_THE_UPDATE = [faults.Kill() @ at(rank=1, step=3, point="optimize")]

WENT_ON_ALONE = silent(oracle="control", rank=0, cause="wrong result")
# Of three ranks or more, two or more are left, and each goes on by itself: their parameters part before the end.
EACH_WENT_ON = {3: silent(oracle="replicas", cause="replicas differ")}
WENT_ON_OTHERWISE = silent(oracle="control", cause="wrong result")
FORGOT = silent(oracle="samples", cause="samples duplicated")

SCENARIO = Scenario(
    family="process",
    job=Job(ranks=2, steps=8, data="digits"),
    strikes=IN_THE_REDUCTION,
    cases=[
        Case("torch-plain", "digits_ddp:plain", expect=DETECTED),
        Case("torch-alone", "digits_ddp:alone", expect=WENT_ON_ALONE, at=EACH_WENT_ON),
        Case("torch-forgetful", "digits_ddp:forgetful", restarts=1, expect=FORGOT),
        Case("torch-resuming", "digits_ddp:resuming", restarts=1, expect=SURVIVED),
        Case("torch-plain-optimize", "digits_ddp:plain", strikes=BEFORE_THE_UPDATE, expect=DETECTED),
        Case(
            "torch-alone-optimize",
            "digits_ddp:alone",
            strikes=BEFORE_THE_UPDATE,
            expect=WENT_ON_ALONE,
            at=EACH_WENT_ON,
        ),
        Case("torch-forgetful-optimize", "digits_ddp:forgetful", restarts=1, strikes=BEFORE_THE_UPDATE, expect=FORGOT),
        Case("torch-resuming-optimize", "digits_ddp:resuming", restarts=1, strikes=BEFORE_THE_UPDATE, expect=SURVIVED),
        Case("torch-sharded-weights-only", "sharded:weights_only", restarts=1, expect=WENT_ON_OTHERWISE),
        Case("torch-sharded-resuming", "sharded:in_turn", restarts=1, expect=SURVIVED),
        Case("tf-plain", "digits_workers:plain", framework="tensorflow", expect=DETECTED),
        Case("tf-limited", "workers:limited", framework="tensorflow", patience_s=5.0, expect=DETECTED),
        Case("tf-retrying", "workers:retrying", framework="tensorflow", patience_s=5.0, expect=DETECTED),
        Case("tf-forgetful", "digits_workers:forgetful", framework="tensorflow", restarts=1, expect=FORGOT),
        Case("tf-resuming", "digits_workers:resuming", framework="tensorflow", restarts=1, expect=SURVIVED),
    ],
)
