"""Objects to a rank that died of its own doing, of a signal or as the kernel's OOM killer had it, and says where."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from breakrank.analysis.collectives import Call, last_call
from breakrank.analysis.endings import where_at
from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Terms
from breakrank.verdict import Finding
from breakrank_agent.protocol.events import CrashEvent, CrashThread

PROPERTY = "ends"

#: Signals that a process gets for what it did itself; any other was sent by somebody.
_OWN = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGSYS")
#: Native calls that free memory, move it or put other memory in its place.
_FREES = ("munmap", "free", "resize", "realloc", "set_data", "mremap", "ftruncate", "decref", "reset")


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Return a finding for each rank that died of such a signal, or was killed for its memory, with its work undone."""
    words = {(event["attempt"], event["rank"]): event for event in history.seen("crash")}
    killed = {(e["attempt"], e["rank"]): e["memory"] for e in history.seen("enforced") if "memory" in e}
    found = []
    for key, lived in sorted(history.ranks.items()):
        if lived.died_of() in _OWN:
            found.append(_finding(lived, words.get(key)))
        elif lived.died_of() == "SIGKILL" and key in killed:
            evidence = {"oom_kill": killed[key]}
            place = (lived.rank,), where_at(lived), lived.attempt
            found.append(Finding("crash", "out of memory", *place, evidence=evidence))
    return found


def _finding(lived: RankHistory, said: CrashEvent | None) -> Finding:
    threads = said["threads"] if said is not None else []
    died = next((t for t in threads if t["died"]), None)
    others = sorted((t for t in threads if not t["died"] and t["frames"]), key=_suspicion)
    call = last_call(lived)
    evidence: dict[str, Any] = {
        "signal": lived.died_of(),
        "where": _where(died, call),
        "meanwhile": _meanwhile(others[0]) if others and not others[0]["waits"] else "",
        "site": _site(died) if died is not None and died["frames"] else call.site if call is not None else "",
        "native": died["native"][:8] if died is not None else [],
        "address": said["address"] if said is not None else "",
        "others": [
            {"thread": t["thread"], "site": _site(t), "waits": t["waits"], "native": t["native"][:8]} for t in others
        ],
        "unread": said["unread"] if said is not None else "",
    }
    places = tuple(site for site in (evidence["site"], *(_site(t) for t in others if not t["waits"])) if site)
    return Finding("crash", "killed by a signal", (lived.rank,), where_at(lived), lived.attempt, places, evidence)


def _where(died: CrashThread | None, call: Call | None) -> str:
    """Say where the thread that died was; of one without a line, the collective that the rank was in."""
    if died is not None and died["frames"]:
        return f"in {_place(died)}"
    return f"in {call.words()}" if call is not None else "where no Python line is known"


def _suspicion(thread: CrashThread) -> tuple[bool, bool]:
    """Sort first the thread that frees memory, and last those that wait for something."""
    return not _freeing(thread), bool(thread["waits"])


def _freeing(thread: CrashThread) -> str:
    """Return the outermost of a thread's innermost calls that frees or replaces memory; empty if there is none."""
    calls = [str(call) for call in thread["native"][:8] if any(word in call.lower() for word in _FREES)]
    return calls[-1] if calls else ""


def _meanwhile(thread: CrashThread) -> str:
    call, name = _freeing(thread), str(thread["thread"])
    # One that has no name is known by a number, which is another one in each run.
    who = "another thread" if name.startswith("thread ") else f"thread {name}"
    return f", while {who} was in {_place(thread)}{f' ({call})' if call else ''}"


def _place(thread: CrashThread) -> str:
    return f"{thread['frames'][-1][2]} ({_site(thread)})"


def _site(thread: CrashThread) -> str:
    """Return the innermost of the user's lines: `train.py:8`."""
    frames = thread["frames"]
    return f"{os.path.basename(frames[-1][0])}:{frames[-1][1]}" if frames else ""
