"""Bits of one rank's numbers flip: weights, gradients, activations, momenta, or a message to its peers or from them.

The highest bit of an exponent makes a number of about 0.01 one of about 1e36. Others leave a number that no bound is
exceeded by, and only ranks that compare their state notice.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

#: The number of an exponent's highest bit; and a place where it raises the loss, with two to four ranks.
HIGHEST, SAMPLE = 7, 640
FINDS = dict.fromkeys(("comparing", "bounding"), DETECTED) | {"rolling_back": SURVIVED}
APART = silent(oracle="replicas", rank=1, step=3, cause="replicas differ")
LATER = silent(oracle="replicas", rank=1, step=4, cause="replicas differ")
HUGE = silent(oracle="finite", rank=1, step=4, cause="non-finite value")
WRONG = silent(oracle="control", rank=1, step=3, cause="wrong contribution")


def cases(name, fault, where, found, *guards, program="shielded", framework="torch", **more):
    """Return the case of the program without a guard, and one for each guard that notices or heals."""
    prefix, strikes = "tf" if framework == "tensorflow" else "torch", [fault @ where]
    return [
        Case(
            f"{prefix}-{name}-{guard.replace('_', '-')}",
            f"{program}:{guard}",
            framework=framework,
            strikes=strikes,
            expect=FINDS.get(guard, found),
            **({} if guard in FINDS else more),
        )
        for guard in ("unguarded", *guards)
    ]


LOADING, FORWARD = at(rank=1, step=4, point="load"), at(rank=1, step=3, point="forward")
OPTIMIZING, STEPPED = at(rank=1, step=3, point="optimize"), at(rank=1, step=3, point="step")
REDUCING = at(rank=1, step=3, point="collective")

SCENARIO = Scenario(
    family="numeric",
    oracles=("ends", "progress", "finite", "replicas", "buffers", "samples", "collectives", "control", "checkpoint"),
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        *cases(
            "weights",
            faults.CorruptWeights(tensor=3, bit=HIGHEST),
            LOADING,
            HUGE,
            "comparing",
            "rolling_back",
            # The weight is another one with four ranks, and the sum of the losses just fits into a float32.
            at={4: LATER},
        ),
        *cases("weights-mantissa", faults.CorruptWeights(field="mantissa"), LOADING, LATER, "comparing"),
        *cases("weights-sign", faults.CorruptWeights(field="sign"), LOADING, LATER, "comparing"),
        *cases("weights-stuck", faults.CorruptWeights("stuck", "mantissa"), LOADING, LATER, "comparing"),
        *cases("gradients", faults.CorruptGradients(), OPTIMIZING, APART, "comparing"),
        *cases("gradients-element", faults.CorruptGradients("element", "mantissa"), OPTIMIZING, APART, "comparing"),
        *cases(
            "activations",
            faults.CorruptActivations("row", tensor=0, element=SAMPLE, bit=HIGHEST),
            FORWARD,
            WRONG,
            "bounding",
            "rolling_back",
        ),
        *cases("momenta", faults.CorruptOptimizerState("bits"), STEPPED, LATER, "comparing"),
        *cases("sent", faults.CorruptMessage(bit=HIGHEST), REDUCING, WRONG, "bounding"),
        *cases("received", faults.CorruptMessage("bits", received=True), REDUCING, APART, "comparing"),
        *cases(
            "weights",
            faults.CorruptWeights(),
            STEPPED,
            APART,
            "comparing",
            program="shielded_workers",
            framework="tensorflow",
        ),
        *cases(
            "momenta",
            faults.CorruptOptimizerState("bits"),
            STEPPED,
            LATER,
            "comparing",
            program="shielded_workers",
            framework="tensorflow",
        ),
    ],
)
