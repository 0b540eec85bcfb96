"""A job goes on with a part of what it had saved: the optimizer begins anew, or nothing was found under its name.

`expect_partial` is meant for jobs that want only a part; in other jobs it hides that only a part was restored.

Seen in the wild: tensorflow/tensorflow#33424 (an optimizer that begins anew, and a warning at the end:
`tf-without-the-optimizer`, `tf-renamed`) and zsylvester/segmenteverygrain#5 (slots of an older optimizer that do not
fit: `tf-renamed-strictly`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

IN_PART = silent(oracle="checkpoint", rank=0, step=1, cause="partial restore")
FORGOTTEN = silent(oracle="control", rank=0, step=1, cause="wrong result")

SCENARIO = Scenario(
    family="storage",
    without={"torch": "`load_state_dict` refuses what does not fit, unless it is told not to"},
    job=Job(ranks=1, steps=5, data="digits"),
    oracles=("ends", "progress", "finite", "samples", "checkpoint", "control"),
    cases=[
        Case(
            "tf-without-the-optimizer",
            "restoring:without_the_optimizer",
            framework="tensorflow",
            control="restoring:whole",
            expect=IN_PART,
        ),
        Case(
            "tf-renamed",
            "restoring:renamed",
            framework="tensorflow",
            control="restoring:whole",
            expect=IN_PART,
        ),
        Case(
            "tf-renamed-strictly",
            "restoring:renamed_strictly",
            framework="tensorflow",
            control="restoring:whole",
            expect=DETECTED,
        ),
        Case(
            "tf-whole",
            "restoring:whole",
            framework="tensorflow",
            control="restoring:whole",
            expect=SURVIVED,
        ),
        Case(
            "tf-file-without-the-optimizer",
            "restoring:as_a_file_without_the_optimizer",
            framework="tensorflow",
            control="restoring:as_a_file",
            expect=FORGOTTEN,
        ),
        Case(
            "tf-weights",
            "restoring:as_weights",
            framework="tensorflow",
            control="restoring:as_a_file",
            expect=FORGOTTEN,
        ),
        Case(
            "tf-file",
            "restoring:as_a_file",
            framework="tensorflow",
            control="restoring:as_a_file",
            expect=SURVIVED,
        ),
    ],
)
