"""The values that the memory keeps: a session, and the result of a case in it."""

from __future__ import annotations

from dataclasses import dataclass

#: The kinds of sessions: a call of pytest, a night, which may be several, an image that is validated, and the matrix of
#: collectives that do not match.
PYTEST, NIGHTLY, IMAGE, MATRIX = "pytest", "nightly", "image", "matrix"


@dataclass(frozen=True)
class Session:
    """One session: times are UTC, as in 2026-11-30T02:00:00Z. `exit` is None until it has ended.

    `versions` are of the software that ran the ranks, in the image if there is one. `selected` counts the cases that
    were to run. `git` is the revision of the folder, with `-dirty` if files of it were changed. `image_id` is the
    digest by which the engine knows the image: its name may mean another one tomorrow.
    """

    began: str
    kind: str = PYTEST
    ended: str = ""
    host: str = ""
    git: str = ""
    image: str = ""
    image_id: str = ""
    breakrank: str = ""
    python: str = ""
    torch: str = ""
    tf: str = ""
    argv: tuple[str, ...] = ()
    selected: int = 0
    exit: int | None = None
    id: int = 0

    @property
    def versions(self) -> dict[str, str]:
        """The versions of what ran the ranks, by name."""
        found = {"breakrank": self.breakrank, "python": self.python, "torch": self.torch, "tensorflow": self.tf}
        return {name: version for name, version in found.items() if version not in ("", "missing")}


@dataclass(frozen=True)
class Entry:
    """The result of one case in one session. `outcome` is empty if nothing was run, for the reason in `sentence`.

    `plan` is the key of the plan, and `code` a digest of the programs and of the software that ran them: with both
    equal, two results should be. `folder` is the name of the run directory. `again` are the further attempts of a case
    that had changed.
    """

    scenario: str
    case: str
    session: int = 0
    family: str = ""
    mechanism: str = ""
    runner: str = ""
    seed: int = 0
    plan: str = ""
    code: str = ""
    outcome: str = ""
    finding: str = ""
    sentence: str = ""
    record: str = ""
    as_recorded: bool | None = None
    digest: str = ""
    seconds: float = 0.0
    blame: str = ""
    folder: str = ""
    again: tuple[Entry, ...] = ()

    @property
    def name(self) -> str:
        """The name of the case, as pytest's id has it."""
        return f"{self.scenario}::{self.case}"

    @property
    def tested(self) -> bool:
        """True if the outcome says anything about the case."""
        return self.outcome not in ("", "VOID")

    @property
    def stood(self) -> tuple[str, str]:
        """The outcome and the finding, by which two results are told apart."""
        return self.outcome, self.finding

    @property
    def flaky(self) -> bool:
        """True if attempts at the same case ended differently."""
        return any(one.stood != self.stood for one in self.again)
