"""The ranks of a job that was started without us: which processes they are, and what their environment says."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import psutil

from breakrank.errors import BreakrankError
from breakrank.live.slurm_ranks import elsewhere, job_of, step_of
from breakrank_agent.protocol.identity import find_identity, is_launcher


@dataclass(frozen=True)
class Member:
    """One process of a job. `rank`, `world`, `local_rank` and `local_world` are None where nobody wrote them down.

    `job` is the address at which the ranks meet, or their step of Slurm's, empty if neither is known. `ended`: nobody
    has waited for it yet.
    """

    pid: int
    rank: int | None = None
    world: int | None = None
    local_rank: int | None = None
    local_world: int | None = None
    job: str = ""
    folder: str = ""
    ended: bool = False

    @property
    def name(self) -> str:
        """The name in words: `rank 1`, or `process 4711` if the rank is not known."""
        return f"process {self.pid}" if self.rank is None else f"rank {self.rank}"


def find_members(pids: Sequence[int]) -> list[Member]:
    """Return the ranks among these processes, below them, and beside them in the same job, in the order of ranks.

    A number may be that of a job of Slurm's, or of the command that has submitted one. Raises `BreakrankError` for a
    process that is not there, that is not ours to look at, or that has no rank.
    """
    found: dict[int, Member] = {}
    for pid in pids:
        job = job_of(pid)
        ranks = list(_beside(job)) if job else []
        if job and not ranks:
            raise BreakrankError(elsewhere(job))
        ranks = ranks or list(_ranks_of(_process(pid)))
        if not ranks:
            raise BreakrankError(f"process {pid} is no Python process, and there is none below it: give a rank's pid")
        found.update((member.pid, member) for member in ranks)
    jobs = {member.job for member in found.values() if member.job}
    if len(jobs) > 1:
        raise BreakrankError(f"these are processes of several jobs ({', '.join(sorted(jobs))}): ask for one at a time")
    if jobs and absent(list(found.values())):
        found.update((member.pid, member) for member in _beside(jobs.pop()) if member.pid not in found)
    return sorted(_name_the_ended(list(found.values())), key=lambda m: (m.rank is None, m.rank or 0, m.pid))


def absent(members: Sequence[Member]) -> list[int]:
    """Return the ranks that should be on this machine (or may be: see `all_here`) and are not among these."""
    expected: set[int] = set()
    for member in members:
        if member.rank is None or member.world is None:
            continue
        if member.local_rank is not None and member.local_world:
            first = member.rank - member.local_rank
            expected |= set(range(first, min(first + member.local_world, member.world)))
        else:
            expected |= set(range(member.world))
    return sorted(expected - {member.rank for member in members})


def all_here(members: Sequence[Member]) -> bool:
    """Return whether the ranks of this machine are known: their number is written down, or they meet here."""
    return any(member.local_world or member.job.startswith(("127.", "localhost")) for member in members)


def children(pid: int) -> list[int]:
    """Return the processes that this one has started."""
    try:
        return [child.pid for child in _children(psutil.Process(pid))]
    except psutil.Error:
        return []


def _process(pid: int) -> psutil.Process:
    """Return the process. Raises `BreakrankError` if it is not there, or is somebody else's."""
    try:
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            process.environ()
    except psutil.AccessDenied:
        user = psutil.Process(pid).username()
        if os.geteuid() == 0:
            cure = "this root may not look at it: it lacks CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)"
        else:
            cure = f"it belongs to {user}: start this command as {' or '.join(dict.fromkeys((user, 'root')))}"
        raise BreakrankError(f"process {pid} cannot be read: {cure}") from None
    except (psutil.NoSuchProcess, OverflowError):
        raise BreakrankError(f"there is no process {pid}: see ps -ef for those that are there") from None
    return process


def _ranks_of(process: psutil.Process) -> Iterator[Member]:
    """Yield the ranks that this process is, or that are below it. Below a rank whose number is known there is none.

    If no number is written down (mp.spawn), all Python processes are taken: their stacks tell ranks from helpers.
    """
    member = _member(process)
    if member is None:
        return
    command = _command(process)
    trains = _is_python(process, command) and not is_launcher(command)
    if trains and member.rank is not None:
        yield member
        return
    below = _children(process)
    if _ended(process) or (trains and not _have_ranks(below)):
        yield member
    for child in below:
        yield from _ranks_of(child)


def _have_ranks(processes: Iterable[psutil.Process]) -> bool:
    """Return whether a rank is written down for one of these or for a process below."""
    for process in processes:
        member = _member(process)
        if member is not None and (member.rank is not None or _have_ranks(_children(process))):
            return True
    return False


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children())
    except psutil.Error:
        return []


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True


def _is_python(process: psutil.Process, command: Sequence[str]) -> bool:
    """Return whether the process is an interpreter, or one has been built into it."""
    if os.path.basename(command[0] if command else "").startswith("python"):
        return True
    try:
        return "python" in os.path.basename(process.exe()) or any("libpython" in m.path for m in process.memory_maps())
    except psutil.Error:
        return False


def _member(process: psutil.Process) -> Member | None:
    """Return what the environment of a process says; None if it is gone or may not be read."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return Member(process.pid, ended=True)
        environment, folder = process.environ(), process.cwd()
    except psutil.Error:
        return None
    found = find_identity(environment)
    if found is not None:
        return Member(process.pid, *found, step_of(environment) or _meeting(environment), folder)
    return Member(process.pid, folder=folder)


def _meeting(environment: Mapping[str, str]) -> str:
    """Return the address at which the ranks meet, empty if it is not known."""
    port = environment.get("MASTER_PORT", "")
    return f"{environment.get('MASTER_ADDR', '')}:{port}" if port else ""


def _beside(job: str) -> Iterator[Member]:
    """Yield the ranks of this machine that are of one job, or of a step of it, without what they have started."""
    for process in psutil.process_iter():
        # One that asks from within the job is none of its ranks.
        member = _trains_for(job, process) if process.pid != os.getpid() else None
        if member is None:
            continue
        with contextlib.suppress(psutil.Error):
            parent = process.parent()
            above = _trains_for(job, parent) if parent else None
            # A helper has inherited the environment of its rank.
            if above is None or above.rank != member.rank:
                yield member


def _trains_for(job: str, process: psutil.Process) -> Member | None:
    """Return the member that this process is, if it trains in this job."""
    member = _member(process)
    if member is None or not (member.job == job or member.job.startswith(f"{job}.")):
        return None
    command = _command(process)
    return member if _is_python(process, command) and not is_launcher(command) else None


def _name_the_ended(members: list[Member]) -> list[Member]:
    """Give the one process that has ended, and whose environment is gone with it, the one rank that is absent."""
    ended = [member for member in members if member.ended and member.rank is None]
    missing = absent(members)
    if len(ended) != 1 or len(missing) != 1:
        return members
    return [replace(member, rank=missing[0]) if member in ended else member for member in members]
