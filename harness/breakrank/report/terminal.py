"""The terminal's part: the rows of verdicts and their headline, aligned columns, the live line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from breakrank.conductor.conductor import WARMING
from breakrank.report.layout import shorten

#: The widest that one cell of a table gets.
_CELL = 72


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
    #: True for the first run of a case in a file of the user's own: its record was never seen to hold.
    fresh: bool = False

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
            fresh=properties.get("fresh") == "true",
        )


def headline(rows: Iterable[Row]) -> str:
    """Return `71 as recorded, 3 changed, 9 not tested`; of scripts, which have no record, `1 fine, 0 not fine, …`.

    A case whose record never held is `not as written`.
    """
    rows = list(rows)
    tested = [row for row in rows if row.tested]
    fine = sum(row.passed for row in tested)
    fresh = sum(row.fresh and not row.passed for row in tested)
    recorded = any(row.as_recorded is not None for row in tested) or not tested
    words = ("as recorded", "changed") if recorded else ("fine", "not fine")
    counts = {words[0]: fine, words[1]: len(tested) - fine - fresh, "not as written": fresh}
    said = [f"{count} {word}" for word, count in counts.items() if count or word in words]
    return ", ".join([*said, f"{len(rows) - len(tested)} not tested"])


def align(cells: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows with their columns aligned; the last column is as wide as it likes."""
    widths = [max(min(len(row[n]), _CELL) for row in cells) for n in range(len(cells[0]) - 1)]
    padded = [[*(f"{c:<{w}}" for c, w in zip(row[:-1], widths, strict=True)), row[-1]] for row in cells]
    return ["  ".join(row).rstrip() for row in padded]


def live_line(phase: str, attempt: int, ranks: Mapping[int, tuple[int, str]], width: int, waiting: str = "") -> str:
    """Return one line that says where every rank is, at most `width` wide; `waiting`: why there are none yet."""
    if phase.startswith(WARMING):
        return shorten(f"starting the warm process (imports {phase.removeprefix(WARMING)}, once)", width)
    where = " │ ".join(f"rank {rank} step {step} {point}" for rank, (step, point) in sorted(ranks.items()))
    prefix = ("control " if phase == "control" else "") + (f"attempt {attempt} " if attempt else "")
    line = f"{prefix}{waiting or where or 'starting'}"
    return shorten(line, width)
