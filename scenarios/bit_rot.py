"""One bit of a saved file is another when the job, whose rank was killed, reads it again.

The bit is one of an exponent, and lies in the middle of the file; or it lies in the file's first word, which says of
what kind it is.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

KILLED = faults.Kill() @ at(rank=0, step=5, point="save")


def rot(path: str, share: float = 0.5) -> tuple:
    """Return the strikes: the bit flips when the rank comes to the next step, which is never saved."""
    return faults.RotFile(path=path, share=share) @ at(rank=0, step=5, point="collective"), KILLED


#: The file of `torch.distributed.checkpoint` that rank 0 has written last.
SHARD = "checkpoints/step-4/__0_0.distcp"
RESTORED = silent(oracle="checkpoint", cause="torn checkpoint")

SCENARIO = Scenario(
    family="storage",
    job=Job(ranks=2, steps=8, data="digits", restarts=1),
    strikes=rot("**/*.pt"),
    cases=[
        Case("torch-trusting", "guarded:trusting", expect=RESTORED),
        Case("torch-falling-back", "guarded:falling_back", expect=SURVIVED),
        Case("torch-refusing", "guarded:refusing", expect=DETECTED),
        Case("torch-header", "guarded:trusting", strikes=rot("**/*.pt", share=0.0), expect=DETECTED),
        Case("torch-shards", "sharded:unchecked", strikes=rot(SHARD), expect=RESTORED),
        Case("torch-shards-checked", "sharded:checked", strikes=rot(SHARD), expect=SURVIVED),
        Case(
            "torch-safetensors",
            "tensor_files:trusting",
            needs=("safetensors",),
            strikes=rot("**/*.safetensors"),
            expect=RESTORED,
        ),
        Case(
            "torch-safetensors-checked",
            "tensor_files:falling_back",
            needs=("safetensors",),
            strikes=rot("**/*.safetensors"),
            expect=SURVIVED,
        ),
        Case(
            "tf-checkpoint",
            "digits_workers:resuming",
            framework="tensorflow",
            strikes=rot("checkpoint-0-*.data-*"),
            expect=DETECTED,
        ),
        Case(
            "tf-trusting",
            "guarded_workers:trusting",
            framework="tensorflow",
            strikes=rot("step-*.h5"),
            expect=RESTORED,
        ),
        Case(
            "tf-falling-back",
            "guarded_workers:falling_back",
            framework="tensorflow",
            strikes=rot("step-*.h5"),
            expect=SURVIVED,
        ),
    ],
)
