"""The departures of ranks: they are dismissed, let leave, or ended, and their files are closed."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from functools import partial
from typing import Any

from breakrank.analysis.wait_for import lags
from breakrank.conductor.inbox import Inbox
from breakrank.conductor.left_files import tell_remains
from breakrank.conductor.rank import Rank
from breakrank.conductor.rank_group import RankGroup
from breakrank.conductor.run import Run
from breakrank.conductor.stack_dump import take_stacks
from breakrank_agent.kernel.rooted import WorkingFolder

#: Seconds that a rank that is through lingers for peers that do not move.
LINGER_S = 0.5


class Departures:
    """Lets the ranks of a group go, each in its way."""

    def __init__(self, run: Run, group: RankGroup, inbox: Inbox) -> None:
        self._run = run
        self._group = group
        self._inbox = inbox

    def dismiss(self) -> None:
        """Let the ranks go that have made the plan's last step, all of them at once: one that is gone is missed."""
        live, last = self._group.live, self._run.plan.until or self._group.ends_after
        if last and all(rank.done for rank in live.values()) and not self._group.incomplete:
            for number in live:
                self._group.answer(number, {})

    def let_leave(self) -> None:
        """Let ranks end that are through, once no peer needs what they have sent, or nobody has moved for long."""
        leaving = {number: rank for number, rank in self._group.ranks.items() if rank.leaves}
        if not leaving:
            return
        idle = time.monotonic() - self._group.moved > LINGER_S
        peers = [peer.ledger for peer in self._group.live.values()]
        for number, rank in leaving.items():
            if idle or not any(lags(peer, rank.ledger) for peer in peers):
                rank.leaves = False
                self._group.answer(number, {})

    def let_on(self, reason: dict[str, Any], struck: bool) -> bool:
        """Let ranks on that have made the plan's last step, if others wait for one; return whether there are any.

        They count steps otherwise than those that wait, and go on until these have made theirs, too. After a strike it
        may be the strike that made them come first: then they end, as they do in a job of so many steps.
        """
        ranks = self._group.ranks
        held = [n for n in reason.get("peers", ()) if n in ranks and ranks[n].done]
        for number in held:
            rank = ranks[number]
            if rank.live and not rank.released:
                rank.done, rank.released = struck, struck
                self._group.write("held", rank=number, waiting=reason["ranks"], on=not struck)
                self._group.answer(number, {"on": not struck})
                self._group.move()
        return bool(held)

    def end(self, reason: dict[str, Any]) -> bool:
        """End every rank that is left, after their stacks were taken; return whether this was a hang, and final."""
        group, session = self._group, self._run.session
        hung = bool(reason["why"])
        if hung:
            group.write("hung", **reason)
        standing = group.live
        for number, text in take_stacks(session, group.reached, standing, reason["why"]).items():
            group.write("stacks", rank=number, text=text)
        if self._run.launcher is not None:
            self._run.launcher.end()
        # All of them stand still before the first is ended: none is to report the loss of another.
        for what in (signal.SIGSTOP, signal.SIGKILL):
            for rank in standing.values():
                rank.ended_by_us = True
            session.signal_all([rank.process.pid for rank in standing.values()], what)
        while group.live:
            self._inbox.wait()
        return hung

    def tell_what_is_left(self) -> None:
        """Write down the bytes of each file that the ranks wrote in the working folder, now that nobody writes."""
        view = self._run.view
        written = sorted(path for path in self._run.written if path and not os.path.isabs(path))
        # The view goes with whoever holds it.
        with (
            contextlib.suppress(OSError),
            WorkingFolder(view.holder, str(view.folder), view.carries) as files,
        ):
            for told in tell_remains(files, written):
                self._group.write("left", **told)

    def close_rank(self, rank: Rank) -> None:
        """Read what is left to read of a rank, and hang up on it."""
        with contextlib.ExitStack() as ends:
            for end in (partial(self._remove_logs, rank), rank.process.close, rank.file.close):
                ends.callback(end)
            self._read_what_is_left(rank)

    def _read_what_is_left(self, rank: Rank) -> None:
        self._inbox.drain_rank(rank)
        for name in rank.outputs:
            while _is_readable(rank.process.pipes[name]):
                if not rank.outputs[name].drain(rank.process.pipes[name]):
                    break
            rank.outputs[name].close()
        if rank.file.left_out:
            self._group.write("left_out", rank=rank.process.rank, count=rank.file.left_out)

    def _remove_logs(self, rank: Rank) -> None:
        """Remove what was drained into the history file; a crash of ours would leave it to be read."""
        for log in rank.children:
            log.close()
        own = self._group.log_of(rank.process.rank)
        for path in (own, *own.parent.glob(f"{own.stem}.*.log")):
            path.unlink(missing_ok=True)
        stacks = own.with_suffix(".stacks")
        if stacks.exists() and stacks.stat().st_size:
            stacks.rename(self._group.records / stacks.name)


def _is_readable(descriptor: int) -> bool:
    """Return whether a read would not block."""
    return bool(select.select([descriptor], [], [], 0)[0])
