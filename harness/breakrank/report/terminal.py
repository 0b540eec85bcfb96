"""The terminal's part: the table of verdicts, its headline, the list of scenarios, the live line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from breakrank.plan.scenario import Scenario
from breakrank.runners import PLAIN

#: The widest that one cell of a table gets.
_CELL = 72
_SENTENCE = 120


@dataclass(frozen=True)
class Row:
    """One case as the table shows it. `outcome` is empty for a case that was skipped; `as_recorded` None: no record."""

    scenario: str
    case: str
    outcome: str = ""
    sentence: str = ""
    recorded: str = ""
    as_recorded: bool | None = None
    digest: str = ""
    seconds: float = 0.0
    folder: str = ""
    repeats: str = ""
    finding: str = ""
    passed: bool = False
    runner: str = ""
    mechanism: str = ""
    also: str = ""

    @property
    def tested(self) -> bool:
        """True if the run said anything: skips, errors and VOID do not."""
        return self.outcome not in ("", "VOID")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], passed: bool) -> Row:
        """Return the row of a report's user properties."""
        known = {"true": True, "false": False}
        return cls(
            scenario=properties["scenario"],
            case=properties["case"],
            outcome=properties.get("outcome", ""),
            sentence=properties.get("sentence", ""),
            recorded=properties.get("recorded", ""),
            as_recorded=known.get(properties.get("as_recorded", "")),
            digest=properties.get("digest", ""),
            seconds=float(properties.get("seconds", 0)),
            folder=properties.get("run_directory", ""),
            repeats=properties.get("repeats", ""),
            finding=properties.get("finding", ""),
            passed=passed,
            runner=properties.get("runner", ""),
            mechanism=properties.get("mechanism", ""),
            also=properties.get("also", ""),
        )


def headline(rows: Iterable[Row]) -> str:
    """Return `71 as recorded, 3 changed, 9 not tested`; of scripts, which have no record, `1 fine, 0 not fine, …`."""
    rows = list(rows)
    tested = [row for row in rows if row.tested]
    fine = sum(row.passed for row in tested)
    recorded = any(row.as_recorded is not None for row in tested) or not tested
    words = ("as recorded", "changed") if recorded else ("fine", "not fine")
    return f"{fine} {words[0]}, {len(tested) - fine} {words[1]}, {len(rows) - len(tested)} not tested"


def verdict_table(rows: Sequence[Row]) -> list[str]:
    """Return the table of verdicts, one line a case; the runner is named where not all are plain processes."""
    repeated = any(row.repeats for row in rows)
    walled = any(row.runner not in ("", PLAIN) for row in rows)
    shown = [*(["runner"] if walled else []), "outcome", "recorded", "digest", *(["repeat"] if repeated else [])]
    cells = [["scenario", "case", *shown, "s", "finding"]]
    for row in sorted(rows, key=lambda r: (r.scenario, r.case)):
        line = [row.scenario, row.case, *([row.runner] if walled else [])]
        line += [row.outcome or "not tested", _recorded(row), row.digest[:8], *([row.repeats] if repeated else [])]
        seconds = f"{row.seconds:.1f}" if row.outcome else ""
        also = f" (also {row.also})" if row.also else ""
        cells.append([*line, seconds, (_shorten(row.sentence) or "there is no verdict") + also])
    return align(cells)


def _shorten(sentence: str) -> str:
    """Cut what a framework said at length; the run directory has the whole."""
    return sentence if len(sentence) <= _SENTENCE else sentence[: _SENTENCE - 3] + "..."


def _recorded(row: Row) -> str:
    """Say whether the verdict is the one on record."""
    if not row.outcome:
        return ""
    if row.as_recorded is None:
        return "no record"
    return "as recorded" if row.as_recorded else f"no: {row.recorded}"


def align(cells: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows with their columns aligned; the last column is as wide as it likes."""
    widths = [max(min(len(row[n]), _CELL) for row in cells) for n in range(len(cells[0]) - 1)]
    padded = [[*(f"{c:<{w}}" for c, w in zip(row[:-1], widths, strict=True)), row[-1]] for row in cells]
    return ["  ".join(row).rstrip() for row in padded]


def scenario_table(scenarios: Iterable[Scenario]) -> str:
    """Return the list of scenarios: case, family, record, needs."""
    cells = [["scenario::case", "family", "on record", "needs"]]
    summaries = []
    for scenario in scenarios:
        summaries.append(f"{scenario.name}: {scenario.summary or 'no summary'}")
        for case in scenario.cases:
            needs = ", ".join([case.framework, *case.needs])
            cells.append([f"{scenario.name}::{case.name}", scenario.family, case.words(), needs])
    if not summaries:
        return "there are no scenarios\n"
    return "\n".join([*summaries, "", *align(cells)]) + "\n"


def live_line(phase: str, attempt: int, ranks: Mapping[int, tuple[int, str]], width: int) -> str:
    """Return one line that says where every rank is, at most `width` wide."""
    where = " │ ".join(f"rank {rank} step {step} {point}" for rank, (step, point) in sorted(ranks.items()))
    prefix = ("control " if phase == "control" else "") + (f"attempt {attempt} " if attempt else "")
    line = f"{prefix}{where}" if where else f"{prefix}starting"
    return line if len(line) <= width else line[: max(0, width - 1)] + "…"
