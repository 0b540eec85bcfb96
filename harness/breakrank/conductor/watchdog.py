"""Decide that an attempt is at its end: for a proven wait, a passed deadline, or a rank that never ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from breakrank.analysis.groupings import explain_groupings, find_unlike
from breakrank.analysis.hang import Stuck, explain
from breakrank.analysis.rendezvous import explain_meeting, suspect_meeting, waits_in_meeting
from breakrank.analysis.wait_for import Wait
from breakrank.conductor.network_paths import Ways, can_probe, explain_closed
from breakrank.conductor.rank import Rank
from breakrank.host.blocked import Stillness
from breakrank.host.datagrams import Way
from breakrank.host.node_pid import Pid
from breakrank.host.places import asleep, describe, is_there, joining_in_vain, stopped_among
from breakrank_agent.plan import Plan

#: Idle seconds before ranks are checked for a proven wait.
IDLE_S = 0.1
#: Idle seconds until the next look at a wait that is proven, while the framework may still end it.
_REST_S = 0.2
#: A rank that makes points for ever ends at this many times the job's steps.
ENDLESS = 10
#: The looks at ranks that poll a store after which it has nothing new for them.
_ASKED = 12
#: Seconds beyond the deadline that a rank may take that starts cold, and computes: an import is one piece.
IMPORT_S = 60.0
#: The causes of a wait for a rank that is silent: some frameworks notice that by themselves.
_SILENT = ("peer ended", "peer stopped")
#: The evidence against a rank that waits for a thread of its own.
_JOINING = "holds the GIL and joins a thread that waits for it"

Reason = dict[str, Any]


class Watchdog:
    """Says why an attempt is to be ended; `why` is empty for a wait after a failure. `steps` is 0 if not known.

    `orphans` takes the pids of the ranks that run, and returns the processes that hold the connections of a rank that
    has ended. A rank that has made the plan's last step waits for nothing, and counts as gone for its peers.
    """

    def __init__(self, plan: Plan, steps: int, orphans: Callable[[Collection[Pid]], Collection[Pid]]) -> None:
        self._plan = plan
        self._steps = steps
        self._orphans = orphans
        self._stillness = Stillness()
        self._ways = Ways()
        self._on_its_way = False
        #: A look has followed since nothing was on its way, and all ranks have stood still.
        self._clear = False
        self._asked = 0
        #: The idle seconds before which nobody looks again.
        self._rests_until = 0.0
        #: The looks in a row that have seen all ranks asleep that have just started.
        self._slept = 0
        #: The kind of the last proof, as a hung event names it.
        self._by = ""
        #: The holders of connections of ranks that have ended, and the ended ranks that are known to have none.
        self._holders: Collection[Pid] = ()
        self._closed: set[int] = set()

    def forget(self) -> None:
        """Forget all looks: a rank has moved, or may not be judged."""
        self._stillness.forget()
        self._ways.forget()
        self._asked = 0
        self._clear = False
        self._rests_until = 0.0

    def judge(
        self, ranks: Mapping[int, Rank], struck: Collection[int], acts: bool, stuck: bool, idle: float
    ) -> Reason | None:
        """Return the reason to end ranks that have been idle for so many seconds, or None to go on.

        `struck` are ranks that a strike has ended or stopped; `acts`: it is their launcher's turn, which nobody can
        see; `stuck`: the schedule knows that none of the ranks can move.
        """
        live = {n: r for n, r in ranks.items() if r.live and not r.done}
        if self._steps and any(r.step > ENDLESS * self._steps for r in live.values()):
            return self._hung(live, Stuck("endless training", (), {}), idle, "steps")
        if not live:
            # The launcher alone is left: it has not come to an end, or no rank has called.
            return {"why": "", "peer": None} if idle > self._plan.deadline_s else None
        if idle < IDLE_S:
            self.forget()
            return None
        if idle < self._rests_until:
            return None
        standing = stopped_among([r.process.pid for r in live.values()])
        stopped = {n for n, r in live.items() if r.process.pid in standing}
        if any(live[n].process.words.waits for n in stopped):
            # The kernel has stopped the crashing rank so that its stacks can be read.
            self.forget()
            return None
        waiting = {n: r for n, r in live.items() if n not in stopped}
        found = None if acts or self._is_held(ranks) else self._proof(ranks, waiting, stopped, stuck)
        # If it is the framework's turn to raise, and it does not, the deadline decides.
        reason = self._proven(ranks, waiting, found, struck, idle) if found is not None else None
        if reason is not None:
            return reason
        if found is not None:
            # Looks take a fifth of a core, which the ranks of another case can use.
            self._rests_until = idle + _REST_S
        lost = found is not None and found.why in _SILENT
        limits = [r.timeout_s(found.waits.get(n) if found else None, lost) for n, r in live.items()]
        limit = self._plan.deadline_s + max(map(self._patience, limits), default=0.0)
        if idle <= limit or (idle <= limit + IMPORT_S and self._imports(live)):
            return None
        return self._hung(waiting, self._unproven(ranks, stopped), idle, "deadline")

    def _imports(self, live: Mapping[int, Rank]) -> bool:
        """Return whether a rank that has made no point but the first is still at work: it imports its framework."""
        starting = [r for r in live.values() if r.point == "start"]
        self._slept = self._slept + 1 if asleep([r.process.pid for r in starting]) else 0
        return bool(starting) and self._slept < _ASKED

    def _proof(
        self, ranks: Mapping[int, Rank], waiting: Mapping[int, Rank], stopped: Collection[int], stuck: bool
    ) -> Stuck | None:
        """Return the cause for which the ranks can never go on, if that is proven.

        A rank that has never spoken runs without our agent: its call and its timers are not known.
        """
        if not all(r.spoke for r in waiting.values()):
            return None
        ledgers = {n: r.ledger for n, r in ranks.items()}
        if stuck or not waiting:
            self._by = "schedule" if stuck else "threads"
            found = _explain(ranks, stopped)
            return Stuck("deadlock", (), {}) if found.why == "blocked in a lock" else found
        if any(r.ledger.meeting is not None for r in waiting.values()) or explain_groupings(ledgers):
            return self._proof_of_meeting(ranks, waiting, stopped)
        self._look(waiting)
        self._by = "threads"
        if not self._stillness.proven(Stillness.LOOKS):
            return None
        found = _explain(ranks, stopped)
        proven = found.unmatched or self._stillness.proven(Stillness.LOOKS_ALONE)
        was_clear, self._clear = self._clear, False
        # To list all connections takes as long as a look at the ranks, so it comes late.
        if not proven and not can_probe(ranks):
            return None
        closed = self._ways.closed(ranks, waiting)
        if self._has_arrived(closed):
            self.forget()
            return None
        if closed:
            self._by = "network"
            return _unreachable(closed, found.waits)
        # Bytes that have arrived just before may be about to wake a rank, which only a later look can show.
        self._clear = proven and closed is not None
        return found if self._clear and was_clear else None

    def _proof_of_meeting(
        self, ranks: Mapping[int, Rank], waiting: Mapping[int, Rank], stopped: Collection[int]
    ) -> Stuck | None:
        """Return the cause for which a rendezvous, or the making of a group, never comes to its end.

        A rank in one polls the store, or connects, so threads prove nothing; the log shows that it waits.
        """
        asking = {n: r for n, r in waiting.items() if r.ledger.meeting is not None or r.ledger.is_grouping}
        others = {n: r for n, r in waiting.items() if n not in asking}
        if not asleep([r.process.pid for r in asking.values()]):
            # A rank that cannot connect tries again now and then; a closed way is found by probes.
            self._stillness.forget()
            self._asked = 0
            return None
        self._asked += 1
        self._look(others)
        closed = self._ways.closed(ranks, waiting, meet=True)
        if self._has_arrived(closed):
            self.forget()
            return None
        if closed is None or (others and not self._stillness.proven(Stillness.LOOKS)):
            return None
        if self._asked < _ASKED and not closed:
            return None
        self._by = "network" if closed else "rendezvous"
        if closed:
            return _unreachable(closed, waits_in_meeting({n: r.ledger for n, r in asking.items()}))
        gone = [n for n, r in ranks.items() if r.gone or r.done]
        ledgers = {n: r.ledger for n, r in ranks.items()}
        return explain_meeting(ledgers, gone, stopped, {"world": len(ranks)}) or explain_groupings(ledgers)

    def _has_arrived(self, closed: set[Way] | None) -> bool:
        """Return whether bytes were on their way until now: they may have woken a rank, as only new looks can show."""
        was, self._on_its_way = self._on_its_way, closed is None
        return was and closed is not None and not closed

    def _look(self, ranks: Mapping[int, Rank]) -> None:
        calls = {n: r.ledger.in_call for n, r in ranks.items()}
        self._stillness.look({n: r.process.pid for n, r in ranks.items()}, calls)

    def _proven(
        self, ranks: Mapping[int, Rank], waiting: Mapping[int, Rank], found: Stuck, struck: Collection[int], idle: float
    ) -> Reason | None:
        """Return the reason that a proven wait is, unless the framework's own time-out may still speak."""
        lost = found.why in _SILENT
        # A rank that waits in no call of the framework, and without a time-out, is not ended by the framework.
        limited = {n: r for n, r in waiting.items() if n in found.waits or self._stillness.limited(n)}
        if any(self._patience(r.timeout_s(found.waits.get(n), lost)) for n, r in limited.items()):
            return None
        failed = [n for n, r in ranks.items() if r.failed and n not in struck]
        live = {n: r for n, r in ranks.items() if r.live}
        return {"why": "", "peer": failed[0]} if failed else self._hung(waiting or live, found, idle, self._by)

    def _patience(self, timeout_s: float | None) -> float:
        """Return the time-out that will end a wait, if the plan has the patience for it, else 0."""
        return timeout_s if timeout_s is not None and timeout_s <= self._plan.patience_s else 0.0

    def _is_held(self, ranks: Mapping[int, Rank]) -> bool:
        """Return whether a rank has ended, and orphans of it hold its connections open.

        Ranks that wait for it are woken from outside, when the connections are closed; looks from before prove nothing.
        """
        gone = {n for n, r in ranks.items() if r.gone}
        if gone <= self._closed:
            return False
        if not any(map(is_there, self._holders)):
            self.forget()
            self._holders = self._orphans([r.process.pid for r in ranks.values() if r.live])
            self._closed |= set() if self._holders else gone
        return bool(self._holders)

    def _unproven(self, ranks: Mapping[int, Rank], stopped: Collection[int]) -> Stuck:
        """Return the likely cause of waits that are not proven, when the deadline has passed."""
        ledgers = {n: r.ledger for n, r in ranks.items()}
        suspected = suspect_meeting(ledgers) or explain_groupings(ledgers)
        if suspected is not None:
            return suspected
        found = _explain(ranks, stopped)
        if found.why == "peer ended" and self._is_held(ranks):
            return replace(found, why="connection held by orphan")
        if found.why == "peer stopped":
            return Stuck("deadline", found.peers, found.waits, "stands still")
        away = tuple(n for n, r in ranks.items() if r.live and n not in found.waits and n not in stopped)
        shown_by = "is in no collective, where others wait" if away and found.waits else ""
        return Stuck("deadline", away if found.waits else (), found.waits, shown_by)

    def _hung(self, waiting: Mapping[int, Rank], found: Stuck, idle: float, by: str) -> Reason:
        return {
            "why": found.why,
            "peer": found.peers[0] if found.peers else None,
            "peers": list(found.peers),
            "shown_by": found.shown_by,
            "ranks": sorted(waiting),
            "seconds": round(idle, 3),
            "waiting": [r.waits_in(found.waits.get(n), found.why in _SILENT) for n, r in sorted(waiting.items())],
            "evidence": self._evidence(waiting, by),
        }

    def _evidence(self, waiting: Mapping[int, Rank], by: str) -> dict[str, Any]:
        """Return what was looked at, with the threads as they are now: they stand still."""
        looks = self._stillness.looks if by in ("threads", "network") else 0
        threads = describe({rank.process.pid: rank.ledger.in_call for rank in waiting.values()})
        return {
            "by": by,
            "looks": looks,
            "threads": [
                {"rank": number, **seen}
                for number, rank in sorted(waiting.items())
                for seen in threads[rank.process.pid]
            ],
        }


def _explain(ranks: Mapping[int, Rank], stopped: Collection[int]) -> Stuck:
    """Return the cause for which ranks that stand still can never go on, by their logs and by what their threads do."""
    gone = [n for n, r in ranks.items() if r.gone or r.done]
    live = {n: r.process.pid for n, r in ranks.items() if n not in gone and n not in stopped}
    ledgers = {n: r.ledger for n, r in ranks.items()}
    found = explain(ledgers, gone, stopped)
    vain = joining_in_vain(live.values())
    joining = tuple(sorted(n for n, pid in live.items() if pid in vain))
    if joining:
        return replace(found, why="GIL deadlock", peers=joining, shown_by=_JOINING)
    unlike = find_unlike(ledgers)
    if unlike is None or found.why in _SILENT:
        return found
    # Ranks that came out of such a making are connected with members of another group.
    return replace(found, why="group mismatch", peers=unlike.odd, shown_by=unlike.said)


def _unreachable(closed: Collection[Way], waits: Mapping[int, Wait]) -> Stuck:
    """Return the cause of a wait for bytes that cannot arrive."""
    peers, shown_by = explain_closed(closed)
    return Stuck("unreachable", peers, waits, shown_by)
