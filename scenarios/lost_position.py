"""A job is killed within an epoch, and its readers go on from another place than the one that they had come to.

The epoch begins anew, or goes on in the order of another one, or all ranks go on from the place of one of them. In
TensorFlow, the state of a dataset's iterator holds samples, too: it is of no other worker's use.

Seen in the wild: huggingface/accelerate#PR4071 (resuming within an epoch in the order of the first one) and
PrimeIntellect-ai/prime-rl#PR1035 (the loader's state of one rank, restored on all).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, silent

DOUBLED = silent(oracle="samples", cause="samples duplicated")
IN_THE_REDUCTION = [faults.Kill() @ at(rank=1, step=11, point="collective")]

SCENARIO = Scenario(
    family="data",
    # Between the reduction and the update: the step before is the last one that was saved.
    job=Job(ranks=2, steps=12, data="digits", restarts=1),
    strikes=[faults.Kill() @ at(rank=1, step=7, point="optimize")],
    cases=[
        Case("torch-forgotten", "positions:forgotten", expect=DOUBLED),
        Case("torch-beginning-of-the-epoch", "positions:beginning_of_the_epoch", expect=DOUBLED),
        Case("torch-order-of-the-first-epoch", "positions:order_of_the_first_epoch", expect=DOUBLED),
        Case("torch-state-of-rank-0", "positions:state_of_rank_0", expect=DOUBLED),
        Case("torch-state-of-each-rank", "positions:state_of_each_rank", expect=SURVIVED),
        Case(
            "tf-forgotten",
            "positions_workers:forgotten",
            framework="tensorflow",
            strikes=IN_THE_REDUCTION,
            expect=DOUBLED,
        ),
        Case(
            "tf-skipped-in-the-first-epoch",
            "positions_workers:skipped_in_the_first_epoch",
            framework="tensorflow",
            strikes=IN_THE_REDUCTION,
            expect=DOUBLED,
        ),
        Case(
            "tf-skipped",
            "positions_workers:skipped",
            framework="tensorflow",
            strikes=IN_THE_REDUCTION,
            expect=SURVIVED,
        ),
        Case(
            "tf-state-of-worker-0",
            "positions_workers:state_of_worker_0",
            framework="tensorflow",
            strikes=IN_THE_REDUCTION,
            expect=silent(oracle="samples", rank=1, step=1, cause="duplicate shard"),
        ),
        Case(
            "tf-state-of-each-worker",
            "positions_workers:state_of_each_worker",
            framework="tensorflow",
            strikes=IN_THE_REDUCTION,
            expect=SURVIVED,
        ),
    ],
)
