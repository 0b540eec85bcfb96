"""Objects when nothing can be resumed from, where the control left a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

from breakrank.history import History
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Look for a save where the control had made its first, and for restores of what nobody saved."""
    if control is None:
        raise Abstain("there is no control that says whether checkpoints belong to the job")
    first = min((int(e["step"]) for lived in control.ranks.values() for e in lived.payloads("save")), default=None)
    if first is None:
        raise Abstain("the control saved no checkpoint")
    torn = _torn(history, control)
    if torn or any(lived.payloads("save") for lived in history.ranks.values()):
        return torn
    if not _came_past(history, first):
        raise Abstain(f"the run ended before its first checkpoint, which the control saved at step {first}")
    what = f"no rank finished a save, and the control saved its first at step {first}"
    return [Finding("checkpoint", "no checkpoint", (), first, history.attempts[-1], evidence={"what": what})]


def _came_past(history: History, step: int) -> bool:
    """Whether the run did all of `step`: some rank began the next one, or ended well."""
    return any(
        lived.ended_well or any(int(e["step"]) > step for e in lived.of_kind("point"))
        for lived in history.ranks.values()
    )


def _torn(history: History, control: History) -> list[Finding]:
    """Return the restores of a file that holds what nobody wrote: neither a save of this run nor what was laid there.

    What the control restored, too, was laid there before (weights to start from). Where the digest of a save is not
    known, nothing can be said of restores.
    """
    saves = {e["file"] for lived in history.ranks.values() for e in lived.payloads("save")}
    if None in saves:
        return []
    laid = {e["file"] for lived in control.ranks.values() for e in lived.payloads("restore")}
    wrong: dict[tuple[int, int, str], list[int]] = {}
    for (attempt, rank), lived in sorted(history.ranks.items()):
        for event in lived.payloads("restore"):
            if event["file"] is not None and event["file"] not in saves | laid:
                wrong.setdefault((attempt, int(event["step"]), str(event["path"])), []).append(rank)
    return [
        Finding("checkpoint", "torn checkpoint", tuple(ranks), step, attempt, evidence={"path": path})
        for (attempt, step, path), ranks in sorted(wrong.items())
    ]
