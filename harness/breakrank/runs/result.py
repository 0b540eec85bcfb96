"""The result of a run: its verdict, held against the record, and saved in the run directory."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from breakrank.files.disk_space import FULL, unwritable, write_verdict
from breakrank.files.private import seal
from breakrank.runs.directory import note_end
from breakrank.verdict import Outcome, Record, Verdict
from breakrank_agent.plan import Plan


@dataclass(frozen=True)
class Result:
    """One run and its verdict; `record` is what is known of the case, if anything is."""

    plan: Plan
    verdict: Verdict
    folder: Path
    seconds: float
    record: Record | None = None

    @property
    def as_recorded(self) -> bool:
        """True if the verdict is the record's; without a record, if the outcome is good and nothing was found."""
        if self.record is not None:
            return self.record.matches(self.verdict.outcome, self.verdict.findings)
        # A plan without strikes leaves nothing to detect.
        good = (Outcome.SURVIVED, Outcome.DETECTED) if self.plan.strikes else (Outcome.SURVIVED,)
        return self.verdict.outcome in good and not self.verdict.findings

    def save(self) -> None:
        """Write `verdict.json`; where it does not find room, what it is worth without what the oracles found."""
        note_end(self.folder)
        try:
            write_verdict(self.folder, self._text())
        except OSError as error:
            if error.errno not in FULL:
                raise unwritable("the verdict cannot be written", self.folder, error) from None
            void = (f"no space left in {self.folder.parent}", *self.verdict.void)
            bare = Verdict(Outcome.VOID, void=tuple(dict.fromkeys(void)), digest=self.verdict.digest)
            write_verdict(self.folder, replace(self, verdict=bare)._text())
        seal(self.folder)

    def _text(self) -> bytes:
        saved = {
            **self.verdict.to_json(),
            "record": self.record.words() if self.record else None,
            "as_recorded": self.as_recorded,
            "seconds": round(self.seconds, 3),
        }
        return json.dumps(saved, indent=1).encode() + b"\n"
