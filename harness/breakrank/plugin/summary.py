"""The table of verdicts on pytest's terminal: in its width, and in its colours if it has any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from breakrank.report.table import verdict_table
from breakrank.report.terminal import Row, headline

#: The colour of each state, as pytest's writer names them.
_COLOURS: Mapping[str, dict[str, bool]] = {
    "good": {"green": True},
    "bad": {"red": True, "bold": True},
    "void": {"yellow": True},
}


def write_table(reporter: pytest.TerminalReporter, rows: Sequence[Row]) -> None:
    """Write a table of verdicts and its headline."""
    for line in verdict_table(rows, reporter.config.get_terminal_writer().fullwidth):
        for part in line:
            reporter.write(part.text, **_COLOURS.get(part.state, {}))
        reporter.write("\n")
    wrong = any(row.tested and not row.passed for row in rows)
    untested = any(not row.tested for row in rows)
    reporter.write_line(headline(rows), **_COLOURS["bad" if wrong else "void" if untested else "good"])
