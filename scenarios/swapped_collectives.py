"""Two collectives of the same shape are issued in another order on one rank: each is paired with the other one.

Torch's own checks at the level DETAIL see nothing: operator, shape and dtype are the same.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

#: With the oracle `collectives`, which judges the laws, the log has the inputs and outputs of each collective.
ORACLES = ("ends", "progress", "collectives", "finite", "replicas", "samples", "control", "checkpoint")

SCENARIO = Scenario(
    family="collectives",
    oracles=ORACLES,
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.SwapCollectives() @ at(rank=1, step=3, point="collective")],
    cases=[
        Case("torch-by-hand", "averaging:plain", expect=silent(oracle="replicas", step=3, cause="replicas differ")),
        Case("torch-checked", "averaging:checked", expect=silent(oracle="replicas", step=3, cause="replicas differ")),
        Case("torch-comparing", "averaging:comparing", expect=DETECTED),
        Case(
            "torch-own-order",
            "averaging:in_own_order",
            strikes=(),
            control="averaging:in_one_order",
            expect=silent(oracle="collectives", rank=1, step=1, cause="order mismatch"),
        ),
        Case(
            "torch-one-order",
            "averaging:in_one_order",
            strikes=(),
            control="averaging:in_one_order",
            expect=SURVIVED,
        ),
        Case(
            "tf-own-order",
            "workers:in_own_order",
            framework="tensorflow",
            strikes=(),
            control="workers:plain",
            expect=silent(oracle="replicas", step=3, cause="replicas differ"),
        ),
        Case(
            "tf-own-order-eagerly",
            "workers:in_own_order",
            framework="tensorflow",
            strikes=(),
            control="workers:plain",
            environment={"BREAKRANK_RUN_FUNCTIONS_EAGERLY": "1"},
            expect=silent(oracle="collectives", rank=-1, step=3, cause="order mismatch"),
        ),
        Case(
            "tf-one-order",
            "workers:plain",
            framework="tensorflow",
            strikes=(),
            control="workers:plain",
            expect=SURVIVED,
        ),
    ],
)
