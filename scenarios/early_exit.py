"""A rank leaves with exit code 0 before the last collective of the others.

Seen in the wild: tensorflow/tensorflow#58434 (a worker that leaves early, and a chief that fails after its success:
`tf-plain`) and kyuz0/amd-strix-halo-llm-finetuning#PR6 (a rank that gathers the shards of those that have left:
`torch-exported-by-one`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, detected, faults, silent

LEFT = {"oracle": "ends", "rank": 1, "step": 3, "cause": "training incomplete"}

SCENARIO = Scenario(
    family="process",
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.Exit(code=0) @ at(rank=1, step=3, point="step")],
    cases=[
        Case("torch-plain", "digits_ddp:plain", expect=detected(**LEFT)),
        Case("torch-alone", "digits_ddp:alone", expect=silent(**LEFT)),
        Case(
            "torch-stops-by-itself",
            "stopping:by_itself",
            strikes=(),
            control="stopping:together",
            expect=DETECTED,
        ),
        Case("torch-stops-together", "stopping:together", strikes=(), control="stopping:together", expect=SURVIVED),
        Case(
            "torch-exported-by-one",
            "fully_sharded:exported_by_one",
            strikes=(),
            control="fully_sharded:exported_by_all",
            expect=detected(oracle="checkpoint", step=6, cause="no checkpoint"),
        ),
        Case(
            "torch-exported-by-all",
            "fully_sharded:exported_by_all",
            strikes=(),
            control="fully_sharded:exported_by_all",
            expect=SURVIVED,
        ),
        Case("tf-plain", "workers:plain", framework="tensorflow", expect=detected(**LEFT)),
    ],
)
