"""A whole run accounts for the capabilities that it did not use and the tests that it left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import account
from support.ground import LEAN


def test_what_a_machine_has_and_no_test_used_is_named():
    assert account.complaints({"strace", "docker"}, {"docker"}, {}, []) == [
        "this machine has strace, and no test used it"
    ]


def test_a_skip_is_named_unless_it_is_listed():
    skipped = {"tests/a.py::test_x[1]": "no card", "tests/b.py::test_y": "no disk"}
    (line,) = account.complaints(set(), set(), skipped, account.listed("# all of a\n\ntests/a.py::*  # no card\n"))
    assert line == "tests/b.py::test_y was skipped (no disk), and skips.txt does not list it"


@pytest.mark.parametrize("workers", [[], ["-n", "1"]])
def test_a_run_that_is_to_account_for_itself_fails_for_a_skip(pytester, monkeypatch, workers):
    monkeypatch.setenv("PYTHONPATH", str(Path(account.__file__).parents[1]))
    pytester.makepyfile(conftest="pytest_plugins = ['support.account']")
    pytester.makepyfile(
        """
        import pytest
        from breakrank import doctor
        doctor.capabilities = lambda: {"there": "", "missing": "none"}

        def test_it():
            pytest.skip("not today")
        """
    )
    result = pytester.runpytest_subprocess(*LEAN, "--account", *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*::test_it was skipped (not today), and skips.txt does not list it"])
