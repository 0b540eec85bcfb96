"""One rank's shard is larger than the others': it has a batch more, or its last batch has more samples.

Seen in the wild: microsoft/PyMarlin#80, Lightning-AI/pytorch-lightning#20404 and horovod/horovod#498 (the rank with one
batch more waits for ever: `torch-looping`), tensorflow/tensorflow#36153 (the data of one worker ends first:
`tf-looping`), tensorflow/tensorflow#36224 (a last batch without a sample, whose mean loss is NaN: `tf-running-out`),
pytorch/torchtitan#PR2206 and huggingface/transformers#34242 (means over unequal numbers averaged as equals:
`torch-averaging`, `tf-averaging`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, hung, silent

# Of the first worker's peers there is one: a global batch of 64 samples is shared out evenly among two.
FOR_TWO = (2,)
# Four shards of digits are alike in size, and each ends with a batch of one sample.
UNLIKE = (2, 3)

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=2, steps=8, deadline_s=10.0, data="digits"),
    oracles=("ends", "placement", "progress", "finite", "replicas", "reference", "samples", "control"),
    cases=[
        Case(
            "torch-looping",
            "uneven:looping",
            control="uneven:joining",
            expect=hung(oracle="progress", rank=0, step=7, cause="participant missing"),
        ),
        Case("torch-joining", "uneven:joining", control="uneven:joining", sizes=UNLIKE, expect=SURVIVED),
        Case("torch-agreeing", "uneven:agreeing", control="uneven:agreeing", expect=SURVIVED),
        Case(
            "torch-averaging",
            "uneven:averaging",
            control="uneven:weighing",
            sizes=UNLIKE,
            expect=silent(oracle="reference", step=8, cause="per-rank loss scaling"),
        ),
        Case("torch-weighing", "uneven:weighing", control="uneven:weighing", expect=SURVIVED),
        Case(
            "tf-averaging",
            "uneven_workers:averaging",
            framework="tensorflow",
            sizes=FOR_TWO,
            control="uneven_workers:weighing",
            expect=silent(oracle="reference", step=1, cause="per-rank loss scaling"),
        ),
        Case(
            "tf-weighing",
            "uneven_workers:weighing",
            framework="tensorflow",
            sizes=FOR_TWO,
            control="uneven_workers:weighing",
            expect=SURVIVED,
        ),
        Case(
            "tf-running-out",
            "uneven_workers:running_out",
            framework="tensorflow",
            sizes=FOR_TWO,
            control="uneven_workers:dropping_the_rest",
            expect=silent(oracle="placement", rank=1, step=8, cause="idle replica"),
        ),
        Case(
            "tf-dropping-the-rest",
            "uneven_workers:dropping_the_rest",
            framework="tensorflow",
            sizes=FOR_TWO,
            control="uneven_workers:dropping_the_rest",
            expect=SURVIVED,
        ),
        Case(
            "tf-looping",
            "workers:looping",
            framework="tensorflow",
            control="workers:agreeing",
            expect=DETECTED,
        ),
        Case(
            "tf-agreeing",
            "workers:agreeing",
            framework="tensorflow",
            control="workers:agreeing",
            expect=SURVIVED,
        ),
    ],
)
