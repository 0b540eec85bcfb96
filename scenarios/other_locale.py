"""The host of one rank has a locale without letters that a file has."""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

#: The environment of the ranks, with that of rank 1 alone.
ASCII = {"LC_ALL": "C.UTF-8", "LC_ALL@1": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

SCENARIO = Scenario(
    family="environment",
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        Case(
            "torch-ignoring",
            "surroundings:words_of_the_locale",
            control="surroundings:words_in_utf8",
            expect=silent(oracle="control", rank=1, step=1, cause="batch mismatch"),
            environment=ASCII,
        ),
        Case(
            "torch-failing",
            "surroundings:words_of_the_locale_or_none",
            control="surroundings:words_in_utf8",
            expect=DETECTED,
            environment=ASCII,
        ),
        Case(
            "torch-utf8",
            "surroundings:words_in_utf8",
            control="surroundings:words_in_utf8",
            expect=SURVIVED,
            environment=ASCII,
        ),
        Case(
            "tf-ignoring",
            "surroundings_workers:words_of_the_locale",
            framework="tensorflow",
            control="surroundings_workers:words_in_utf8",
            expect=silent(oracle="samples", rank=1, step=1, cause="samples changed"),
            environment=ASCII,
        ),
        Case(
            "tf-utf8",
            "surroundings_workers:words_in_utf8",
            framework="tensorflow",
            control="surroundings_workers:words_in_utf8",
            expect=SURVIVED,
            environment=ASCII,
        ),
    ],
)
