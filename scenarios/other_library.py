"""The host of one rank has another version of a library: the same call does something else there, and no error says so.

The library is a small one that images are scaled by, put first on the path of modules. Another version of torch itself
cannot be had in one environment; see version_skew.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent
from breakrank.verdict import Record

#: The folder of libraries of the hosts, with that of rank 1 alone.
OTHER_VERSION = {"SITE_PACKAGES": "pixels-1.0", "SITE_PACKAGES@1": "pixels-2.0"}


def of_torch(name: str, expect: Record) -> Case:
    """Return a case of torch."""
    function = f"surroundings:{name.replace('-', '_')}"
    control = "surroundings:scaled_by_the_job"
    return Case(f"torch-{name}", function, control=control, expect=expect, environment=OTHER_VERSION)


def of_tensorflow(name: str, expect: Record) -> Case:
    """Return a case of TensorFlow."""
    function, control = f"surroundings_workers:{name.replace('-', '_')}", "surroundings_workers:scaled_by_the_job"
    environment = OTHER_VERSION
    return Case(f"tf-{name}", function, expect, "tensorflow", control=control, environment=environment)


SCENARIO = Scenario(
    family="environment",
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        of_torch("scaled-by-the-host", silent(oracle="control", rank=1, step=1, cause="batch mismatch")),
        of_torch("scaled-by-one-version", DETECTED),
        of_torch("scaled-by-the-job", SURVIVED),
        of_tensorflow("scaled-by-the-host", silent(oracle="samples", rank=1, step=1, cause="samples changed")),
        of_tensorflow("scaled-by-the-job", SURVIVED),
    ],
)
