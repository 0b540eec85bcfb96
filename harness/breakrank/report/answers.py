"""Answers for machines: what a running job does, and what a machine has, in the forms that schemas describe."""

from __future__ import annotations

import json
from typing import Any

from breakrank.doctor import Check
from breakrank.host.stacks import Place
from breakrank.live.sampling import Seen
from breakrank.live.why import Answer, Group, says


def dumped(form: Any) -> str:
    """Return a form as the text of JSON that ends in a newline."""
    return json.dumps(form, indent=1) + "\n"


def why_json(answer: Answer) -> str:
    """Return the answer about a running job, of the form that the schema `why` describes."""
    groups = [_group(group, answer) for group in answer.groups]
    return dumped({"version": 1, "sentence": answer.sentence, "groups": groups, "notes": list(answer.notes)})


def _group(group: Group, answer: Answer) -> dict[str, Any]:
    first = group.first
    return {
        "says": says(group),
        "odd": any(one in answer.odd for one in group.seen),
        "processes": [_process(one) for one in group.seen],
        **_place(first.place),
        "threads": [{"thread": stack.thread, **_place(stack.place)} for stack in first.threads],
    }


def _process(seen: Seen) -> dict[str, Any]:
    member = seen.member
    return {"pid": member.pid, "rank": member.rank, "state": seen.state, "unread": seen.unread}


def _place(place: Place | None) -> dict[str, Any]:
    frames = place.frames if place is not None else ()
    return {
        "waits_in": place.wait.name if place is not None and place.wait is not None else None,
        "frames": [{"function": frame.function, "file": frame.file, "line": frame.line} for frame in frames],
    }


def doctor_json(checks: list[Check], leftovers: str) -> str:
    """Return what a machine has and lacks, of the form that the schema `doctor` describes."""
    found = [{"name": check.name, "found": check.found, "cure": check.cure} for check in checks]
    return dumped({"version": 1, "checks": found, "leftovers": leftovers})
