"""Who sees that a strike landed: never the injector, always the kernel, a peer, or bytes that are read again."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from breakrank.history.reader import signal_name
from breakrank.host.blocked.threads import fields, read_threads, waits_for_a_thread
from breakrank.host.cgroup_files import Hierarchies, frozen
from breakrank.host.datagrams import COUNT, Soundings, Way, both_ways, fastest
from breakrank.host.name_lookup import look_up
from breakrank_agent.faults.data import MANIFEST, SHARD_BYTES
from breakrank_agent.faults.memory import SHARED_MEMORY
from breakrank_agent.kernel.rooted import opened, resolve
from breakrank_agent.kernel.sockets import Link, connected, established, listed
from breakrank_agent.protocol.events import StrikeEvent
from breakrank_agent.protocol.fault import Fault, Target

#: Bytes of a datagram that fills a packet.
_PACKET = 1400


@dataclass
class Evidence:
    """What was seen of one struck rank since the strike fired.

    `reports` is what waitpid told the warden of it, `seen` the agent's second reading of the parameters, and `silent`
    says that the rank has recorded nothing since. `before`, `earlier` and `after` are what the witness itself looked
    at: before a strike from outside, or as soon as one from inside was known; the last time; and now.
    """

    reports: list[dict[str, Any]] = field(default_factory=list)
    seen: StrikeEvent | None = None
    silent: bool = True
    before: Any = None
    earlier: Any = None
    after: Any = None


def ended(fault: Fault, evidence: Evidence) -> str | None:
    """The kernel reports the exit status that the fault delivers, and the rank recorded nothing after the strike."""
    for report in evidence.reports:
        if report["what"] == "ended" and report["status"] == fault.own_act() and evidence.silent:
            status = report["status"]
            return f"{_by(report)}: {signal_name(-status) if status < 0 else f'exit code {status}'}"
    return None


def stopped(fault: Fault, evidence: Evidence) -> str | None:
    """The kernel reports that the rank was stopped."""
    return next((f"{_by(r)}: stopped" for r in evidence.reports if r["what"] == "stopped"), None)


def continued(fault: Fault, evidence: Evidence) -> str | None:
    """The kernel reports that the rank was stopped, and then continued."""
    order = [r["what"] for r in evidence.reports]
    if "stopped" in order and "continued" in order[order.index("stopped") :]:
        return f"{_by(evidence.reports[0])}: stopped, then continued"
    return None


def _by(report: Mapping[str, Any]) -> str:
    """Return what told: waitpid in the rank's parent, or what is seen of a rank that somebody else has started."""
    return str(report.get("by", "waitpid"))


def parameters(fault: Fault, evidence: Evidence) -> str | None:
    """The digest of the parameters, read again by the recorder, is another one than before the strike."""
    seen = evidence.seen
    if seen and seen["before"] and seen["before"] != seen["after"]:
        return f"parameters read again: {seen['before']} became {seen['after']}"
    return None


def gradients(fault: Fault, evidence: Evidence) -> str | None:
    """The digest of the gradients, read again by the recorder before the optimizer steps, is another one."""
    seen = evidence.seen
    if not seen or seen["before"] == seen["after"]:
        return None
    return f"gradients read again: {seen['before']} became {seen['after']}"


def link(fault: Fault, evidence: Evidence) -> str | None:
    """The peer's kernel lists none of the connections as established any more, and it was not the peer that closed."""
    before, after = evidence.before, evidence.after
    if not before or after is None:
        return None
    theirs = {after.states.get(one, "gone") for one in before.links}
    if theirs & {"ESTABLISHED", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT"}:
        return None
    ours = {after.states.get(Link(one.remote, one.local), "gone") for one in before.links}
    at_peer, at_rank = (", ".join(sorted(states)).lower() for states in (theirs, ours))
    return f"the kernel: {len(before.links)} established before, now {at_peer} at the peer, {at_rank} at the rank"


def store(fault: Fault, evidence: Evidence) -> str | None:
    """The kernel lists none of the rank's connections to the store as established any more, seen from either end."""
    before, after = evidence.before, evidence.after
    if not before or after is None:
        return None
    states = {after.states.get(one, "gone") for one in before.links}
    states |= {after.states.get(Link(one.remote, one.local), "gone") for one in before.links}
    if "ESTABLISHED" in states:
        return None
    return f"the kernel: {len(before.links)} established to the store before, now {', '.join(sorted(states)).lower()}"


def look_at_store(fault: Fault, target: Target) -> Links:
    """Look at the connections between a rank and the store, in the kernel's list of the rank's network."""
    return Links(frozenset(connected(target.pid, target.store)), {e.link: e.state for e in listed(target.pid)})


class Links(NamedTuple):
    """The established connections between a rank and its peer, and the states of all that the peer's kernel lists."""

    links: frozenset[Link]
    states: Mapping[Link, str]

    def __bool__(self) -> bool:
        return bool(self.links)


def look_at_links(fault: Fault, target: Target) -> Links | None:
    """Look at the connections between a rank and its peer, from the peer's side; None if there is no such peer."""
    peer = target.peers.get(getattr(fault, "peer", target.rank))
    if peer is None:
        return None
    links = frozenset(established(peer, target.pid, but=target.store))
    # A peer that has ended since lists nothing; where both ranks are in one network, so does the rank for it.
    return Links(links, {e.link: e.state for pid in (target.pid, peer) for e in listed(pid)})


class Ways(NamedTuple):
    """How many of the datagrams that were sent arrived, by way; seen by soundings between the ranks' networks."""

    rank: int
    sent: int
    arrived: Mapping[Way, int]


def look_at_ways(fault: Fault, target: Target) -> Ways | None:
    """Sound every way between two ranks; None where they have no networks of their own."""
    return _sound(target, both_ways(target.around, target.around), getattr(fault, "cycle", COUNT))


def _sound(target: Target, ways: Iterable[Way], count: int, size: int = 0) -> Ways | None:
    ways = sorted(set(ways))
    if not ways:
        return None
    try:
        return Ways(target.rank, count, Soundings(target.around).take(ways, count, size))
    except OSError:
        return None


def closed_ways(fault: Fault, evidence: Evidence) -> str | None:
    """Of datagrams that all arrived before, none arrives on the ways that the fault closes, and all on the others."""
    before, after = evidence.before, evidence.after
    if before is None or after is None or set(before.arrived.values()) != {before.sent}:
        return None
    ranks = {rank for way in after.arrived for rank in way}
    closed = fault.closes(after.rank, ranks) if hasattr(fault, "closes") else set()
    if not closed or any(count != (0 if way in closed else after.sent) for way, count in after.arrived.items()):
        return None
    return f"{after.sent} datagrams each way: none arrives {', '.join(_way(way) for way in sorted(closed))}"


def _way(way: Way) -> str:
    return f"at rank {way[1]} from rank {way[0]}"


class Connected(NamedTuple):
    """Whether the engine says that the rank's container is on its network, and what gets through."""

    connected: bool
    ways: Ways | None


def look_at_container(fault: Fault, target: Target) -> Connected | None:
    """Ask the engine, and sound the ways between the ranks; None where it does not answer."""
    with contextlib.suppress(OSError):
        return Connected(target.walls.is_connected(), look_at_ways(fault, target))
    return None


def disconnected(fault: Fault, evidence: Evidence) -> str | None:
    """The engine says that the container is on its network no more, and nothing gets to its rank, nor from it."""
    before, after = evidence.before, evidence.after
    if before is None or after is None or not before.connected or after.connected:
        return None
    closed = closed_ways(fault, Evidence(before=before.ways, after=after.ways))
    return None if closed is None else f"the engine: the container is on no network; {closed}"


def lossy_ways(fault: Fault, evidence: Evidence) -> str | None:
    """Of datagrams that all arrived before, some are lost between the rank and each peer, both ways, and some not."""
    before, after = evidence.before, evidence.after
    if before is None or after is None or set(before.arrived.values()) != {before.sent}:
        return None
    own = {way: count for way, count in after.arrived.items() if after.rank in way}
    if not own or not all(0 < count < after.sent for count in own.values()):
        return None
    least, most = min(own.values()), max(own.values())
    return f"of {after.sent} datagrams each way, {least if least == most else f'{least} to {most}'} arrive"


def _out(target: Target) -> Way | None:
    """Return the way from the rank to its first peer."""
    peer = next((rank for rank in sorted(target.around) if rank != target.rank), None)
    return None if peer is None else (target.rank, peer)


def look_at_delay(fault: Fault, target: Target) -> float | None:
    """Return the seconds that a datagram takes from the rank to its first peer, at best; None if none arrives."""
    way = _out(target)
    with contextlib.suppress(OSError):
        return None if way is None else fastest(target.around, way)
    return None


def late(fault: Fault, evidence: Evidence) -> str | None:
    """A datagram takes as long as the fault says, and took less before."""
    before, after = evidence.before, evidence.after
    least = (getattr(fault, "ms", 0.0) - getattr(fault, "jitter_ms", 0.0)) / 1000
    if before is None or after is None or not before < least <= after:
        return None
    return f"a datagram from the rank took {before * 1000:.1f} ms before, and {after * 1000:.1f} ms now"


#: Datagrams that are sent to see what becomes of them on the way out.
_MANY = 48


class Out(NamedTuple):
    """What became of datagrams from the rank to its first peer: how many arrived.

    Its kernel has found so many `damaged` in all, and so many `earlier`, before these were sent.
    """

    arrived: int
    damaged: int
    earlier: int


def look_at_way_out(fault: Fault, target: Target) -> Out | None:
    """Send datagrams, count what arrives, and ask the peer's kernel."""
    way = _out(target)
    if way is None or way[1] not in target.peers:
        return None
    peer = target.peers[way[1]]
    earlier = _bad_checksums(peer)
    sounded = _sound(target, [way], _MANY, 64)
    return None if sounded is None else Out(sounded.arrived[way], _bad_checksums(peer), earlier)


def _bad_checksums(pid: int) -> int:
    """Return how many datagrams were damaged when they came into the network of a process (proc(5), net/snmp)."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/net/snmp").read_text().splitlines()
        names, values = (line.split() for line in lines if line.startswith("Udp:"))
        return int(values[names.index("InCsumErrors")])
    return 0


def twice(fault: Fault, evidence: Evidence) -> str | None:
    """More datagrams arrive than were sent."""
    before, after = evidence.before, evidence.after
    if before is None or after is None or before.arrived != _MANY or after.arrived <= _MANY:
        return None
    return f"of {_MANY} datagrams from the rank {after.arrived} arrive"


def damaged(fault: Fault, evidence: Evidence) -> str | None:
    """The peer's kernel counts more datagrams with a wrong checksum, and none was damaged of those sent before.

    Where the rank's network outlasts a run, as a container's does, it may have counted some in another.
    """
    before, after = evidence.before, evidence.after
    if before is None or after is None or before.damaged > before.earlier or after.damaged <= before.damaged:
        return None
    return f"the peer's kernel: {after.damaged - before.damaged} datagrams with a wrong checksum"


class Known(NamedTuple):
    """What is known of a peer's host from where the rank is: its address, empty if nothing is."""

    name: str
    address: str


def look_at_names(fault: Fault, target: Target) -> Known | None:
    """Look for the first peer's host in the rank's network, as the rank's own files say."""
    way = _out(target)
    if way is None:
        return None
    name = target.walls_of(way[1]).host
    with contextlib.suppress(OSError), target.seen() as files:
        return Known(name, look_up(target.walls, files.root, name))
    return Known(name, "")


def names(fault: Fault, evidence: Evidence) -> str | None:
    """A name that was known before is known no longer."""
    before, after = evidence.before, evidence.after
    if before is None or after is None or not before.address or after.address:
        return None
    return f"the resolver: {before.name} was {before.address}, and is not known any more"


class Listening(NamedTuple):
    """How many sockets listen on a port of a rank's host, as its kernel lists them."""

    port: int
    sockets: int


def look_at_port(fault: Fault, target: Target) -> Listening:
    """Look in the kernel's list of the rank's network."""
    port = getattr(fault, "port", 0) or target.store
    there = [e for e in listed(target.pid) if e.state == "LISTEN" and e.link.local.port == port]
    return Listening(port, len(there))


def port(fault: Fault, evidence: Evidence) -> str | None:
    """Somebody listens on the port now, and nobody did before."""
    before, after = evidence.before, evidence.after
    if before is None or after is None or before.sockets or not after.sockets:
        return None
    return f"the kernel: port {after.port} of the rank's host is listened on, and was not"


class Queue(NamedTuple):
    """What the kernel has counted at a rank's end: how often it held something back for lack of bandwidth."""

    held_back: int


def look_at_queue(fault: Fault, target: Target) -> Queue | None:
    """Send more than a burst to a peer, and ask the kernel how often it was held back."""
    way = _out(target)
    if way is None:
        return None
    try:
        Soundings(target.around).send([way], 2 * getattr(fault, "burst", 0) // _PACKET + 1, _PACKET)
        queues = json.loads(target.walls.run("tc", "-s", "-j", "qdisc", "show", "dev", "eth0"))
    except OSError:
        return None
    return Queue(sum(queue.get("overlimits", 0) for queue in queues))


def held_back(fault: Fault, evidence: Evidence) -> str | None:
    """The kernel counts packets of the rank that it held back, and counted none before."""
    before, after = evidence.before, evidence.after
    if before is None or after is None or before.held_back or not after.held_back:
        return None
    return f"the kernel: {after.held_back} times something was held back at the rank's end"


def batch(fault: Fault, evidence: Evidence) -> str | None:
    """The digest of the batch, read again by the recorder before it is handed out, is another one than as loaded."""
    seen = evidence.seen
    if not seen or seen["before"] == seen["after"]:
        return None
    return f"batch read again: {seen['before']} became {seen['after']}"


def issued(fault: Fault, evidence: Evidence) -> str | None:
    """What was handed to torch, read again, is another call than the rank's own; of none, torch has counted none."""
    seen = evidence.seen
    if not seen or seen["before"] == seen["after"]:
        return None
    if seen["after"]:
        return f"the call read again: {seen['before']} became {seen['after']}"
    before, after = seen["counted"]
    if before is None or before != after:
        return None
    return f"torch has counted {after} collectives in the group, as before: {seen['before']} was not issued"


def took(fault: Fault, evidence: Evidence) -> str | None:
    """The clocks, read before and after by the recorder, have gone on by as much as the fault was to take."""
    seen, asleep = evidence.seen, getattr(fault, "asleep", False)
    clock: Literal["wall_s", "cpu_s"] = "wall_s" if asleep else "cpu_s"
    if not seen or seen[clock] < getattr(fault, "seconds", float("inf")):
        return None
    return f"the {'monotonic clock' if asleep else 'CPU clock of its thread'} went on by {seen[clock]:.3f} s"


def jumped(fault: Fault, evidence: Evidence) -> str | None:
    """The rank's wall clock, compared with the one by which the kernel dates files, is off by what the fault says."""
    seen, seconds = evidence.seen, getattr(fault, "seconds", 0)
    before, after = seen["ahead_s"] if seen else (0.0, 0.0)
    # The kernel dates files by its last tick.
    if not seconds or abs(after - before - seconds) > 1:
        return None
    return f"a file's date: the rank's clock is {after:+.0f} s off the kernel's, and was {before:+.0f} s"


class Pages(NamedTuple):
    """How much of a process is in memory, and in swap space, in kB, as the kernel counts its pages now."""

    resident: int
    swapped: int


#: Less than this that is gone, in kB, says nothing: a thread that runs on may give some back.
_PAGED_OUT_KB = 512


def look_at_pages(fault: Fault, target: Target) -> Pages | None:
    """Have the kernel count; None if the rank is gone."""
    with contextlib.suppress(OSError, KeyError, ValueError):
        counted = fields(f"/proc/{target.pid}/smaps_rollup")
        return Pages(*(int(counted[name].split()[0]) for name in ("Rss", "Swap")))
    return None


def paged_out(fault: Fault, evidence: Evidence) -> str | None:
    """The kernel counts less of the rank in memory than before."""
    before, after = evidence.before, evidence.after
    if before is None or after is None or before.resident - after.resident < _PAGED_OUT_KB:
        return None
    swapped = f", {after.swapped - before.swapped} kB of it to swap" if after.swapped > before.swapped else ""
    return f"/proc/<pid>/smaps_rollup: {before.resident} kB in memory became {after.resident} kB{swapped}"


class Main(NamedTuple):
    """A rank's main thread as the kernel shows it: its CPU time in ticks, its switches, if it waits without a limit."""

    ticks: int
    switches: int
    waits: bool


def look_at_main_thread(fault: Fault, target: Target) -> Main | None:
    """Look at the rank's main thread; None if the rank is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError, KeyError, StopIteration):
        thread = next(read_threads(target.pid))
        # Of stat(5), utime and stime are the 14th and 15th field; the name is the second.
        after_name = Path(f"/proc/{target.pid}/task/{target.pid}/stat").read_text().rpartition(")")[2].split()
        return Main(int(after_name[11]) + int(after_name[12]), thread.switches, waits_for_a_thread(thread))
    return None


#: Ticks of CPU time after which a process that can run is taken to compute.
_COMPUTES = 2


class Neighbours(NamedTuple):
    """How many cores the rank may use, and which processes of ours compute on all of them, with their CPU time."""

    cores: int
    ticks: Mapping[int, int]


def look_at_neighbours(fault: Fault, target: Target) -> Neighbours | None:
    """Look at what this process has started; None if the rank is gone."""
    ticks = {}
    with contextlib.suppress(OSError):
        cores = os.sched_getaffinity(target.pid)
        for name in Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split():
            with contextlib.suppress(OSError, IndexError):
                after_name = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                if after_name[0] == "R" and os.sched_getaffinity(int(name)) == cores:
                    ticks[int(name)] = int(after_name[11])
        return Neighbours(len(cores), ticks)
    return None


def crowded(fault: Fault, evidence: Evidence) -> str | None:
    """The kernel counts CPU time of more processes, as many as the rank may use cores, that did not run before."""
    before, after = evidence.before, evidence.after
    if before is None or after is None:
        return None
    new = [pid for pid, ticks in after.ticks.items() if pid not in before.ticks and ticks >= _COMPUTES]
    if not new or len(new) < getattr(fault, "count", 0) * after.cores:
        return None
    return f"/proc/<pid>/stat: {len(new)} processes compute on the {after.cores} cores of the rank"


#: Ticks of CPU time after which a rank that does not come back is taken to spin: a fifth of a second.
_SPUN = 20


def spins(fault: Fault, evidence: Evidence) -> str | None:
    """The rank did not come back from the strike, records nothing, and the kernel counts its CPU time on."""
    before, after = evidence.before, evidence.after
    if evidence.seen or not evidence.silent or before is None or after is None or after.ticks - before.ticks < _SPUN:
        return None
    return f"/proc/<pid>/task: {after.ticks - before.ticks} ticks of CPU time, and no word"


def stuck(fault: Fault, evidence: Evidence) -> str | None:
    """The rank did not come back from the strike, and its main thread waits untimed, unscheduled between two looks."""
    last, now = evidence.earlier, evidence.after
    if evidence.seen or not evidence.silent or now is None or not now.waits or last != now:
        return None
    return "/proc/<pid>/task: the main thread waits for a lock without a time-out, and no word"


def shard(fault: Fault, evidence: Evidence) -> str | None:
    """The bytes of the rank's shard, read again, are others than before the strike."""
    before, after = evidence.before, evidence.after
    if not before or not after or before == after:
        return None
    return f"the shard read again: {before[:16]} became {after[:16]}"


def look_at_shard(fault: Fault, target: Target) -> str | None:
    """Return the digest of the rank's shard in the working folder; None if it has none."""
    # A rank may have laid the files.
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, RecursionError), target.files() as files:
        for laid in json.loads(files.read(MANIFEST, SHARD_BYTES))["shards"]:
            if laid["rank"] == target.rank:
                return hashlib.sha256(files.read(laid["file"], SHARD_BYTES)).hexdigest()
    return None


def lowered(fault: Fault, evidence: Evidence) -> str | None:
    """The kernel says that the process is limited, and that it was not, or less."""
    before, after = evidence.before, evidence.after
    if before is None or after is None or not after.soft < before.soft:
        return None
    return f"{after.name} {before.words()} became {after.words()}"


def told_to_go(fault: Fault, evidence: Evidence) -> str | None:
    """The kernel lists the SIGTERM as sent to the rank and not yet taken, which it did not before."""
    if evidence.before or not evidence.after:
        return None
    return f"/proc/<pid>/status: SIGTERM is pending, and {evidence.after}"


def look_at_sigterm(fault: Fault, target: Target) -> str | None:
    """Say what the rank will do with the SIGTERM that waits for it; None if none does, or the rank is gone."""
    bit = 1 << (signal.SIGTERM - 1)
    with contextlib.suppress(OSError, KeyError):
        status = fields(f"/proc/{target.pid}/status")
        if int(status["ShdPnd"], 16) & bit:
            caught, ignored = (int(status[name], 16) & bit for name in ("SigCgt", "SigIgn"))
            return "caught" if caught else "ignored" if ignored else "not caught"
    return None


class Limit(NamedTuple):
    """What the kernel says of one of a process's limits: where, how much (infinite where there is none), of what."""

    name: str
    soft: float
    unit: str

    def words(self) -> str:
        """Say it."""
        return "unlimited" if self.soft == float("inf") else f"{self.soft:.12g} {self.unit}"


def look_at_limit(name: str, fault: Fault, target: Target) -> Limit | None:
    """Return a limit of the rank by its name in /proc/<pid>/limits; None if the rank is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{target.pid}/limits").read_text().splitlines():
            if line.startswith(f"Max {name}"):
                soft, _, unit = line.removeprefix(f"Max {name}").split()
                return Limit(f"/proc/<pid>/limits: {name}", float(soft.replace("unlimited", "inf")), unit)
    return None


def look_at_bound(controller: str, unit: str, fault: Fault, target: Target) -> Limit | None:
    """Return the limit that the kernel has for a controller of the group that it says the rank is in."""
    bound = Hierarchies().bound(target.pid, controller)
    return None if bound is None else Limit(f"the control group's {controller}:", bound.limit, unit)


def look_at_size(folder: str, fault: Fault, target: Target) -> Limit | None:
    """Return how big the file system is that the rank sees at a folder, or where it is to be; None if it is gone.

    How much of it is free is no evidence: others write, too.
    """
    state = _state_of(folder or getattr(fault, "folder", ""), target)
    size = None if state is None else float(state.f_blocks * state.f_frsize)
    return None if size is None else Limit("statvfs: a file system of", size, "bytes")


def now_read_only(fault: Fault, evidence: Evidence) -> str | None:
    """The kernel says that the folder, as the rank sees it, is mounted to be read only, and that it was not."""
    return "statvfs: ST_RDONLY is set" if evidence.after and evidence.before is False else None


def look_at_mount(fault: Fault, target: Target) -> bool | None:
    """Whether the fault's folder is mounted to be read only, as the rank sees it; None if the rank is gone."""
    state = _state_of(getattr(fault, "folder", ""), target)
    return None if state is None else bool(state.f_flag & os.ST_RDONLY)


def _state_of(path: str, target: Target) -> os.statvfs_result | None:
    """Ask for the file system of a path, or of what lies above where it is to be, through the rank's own mounts.

    A file there is the rank's only in the working folder, and in memory.
    """
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        files = stack.enter_context(target.seen())
        found = resolve(files.root, path) if path == SHARED_MEMORY else files.nearest(path)
        return os.statvfs(stack.enter_context(opened(found)))
    return None


def failing_reads(fault: Fault, evidence: Evidence) -> str | None:
    """A byte that could be read before, through the rank's own mounts, is refused now (EIO), in each of the files."""
    before, after = evidence.before, evidence.after
    if not before or not after or any(before.values()) or set(after.values()) != {errno.EIO}:
        return None
    return f"read of the first byte: EIO in {', '.join(sorted(os.path.basename(path) for path in after))}"


def look_at_reads(fault: Fault, target: Target) -> dict[str, int]:
    """Read a byte of each of the fault's files, as the rank sees them; return the error numbers, 0 for none."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError), target.seen() as files:
        for path in files.glob(getattr(fault, "path", "")):
            try:
                with opened(files.open(path)) as descriptor:
                    os.read(descriptor, 1)
                found[path] = 0
            except OSError as error:
                # Not every refusal is one of the kernel's.
                found[path] = error.errno or errno.EINVAL
    return found


class Traced(NamedTuple):
    """Which threads of a rank the kernel says are traced, and which not; what the tracer has said until now."""

    traced: int
    free: int
    said: str


def failed_call(fault: Fault, evidence: Evidence) -> str | None:
    """The tracer tells of a system call of the rank that came back with an error that was put there."""
    found = re.search(_FAILED, evidence.after.said) if evidence.after is not None else None
    return None if found is None else f"strace: {found[1]} came back with {found[2]}"


#: A call that failed as strace(1) tells it, also where another thread's call is told in between.
_FAILED = r"(\w+)(?:\(| resumed>).* = -1 (\w+) .*\(INJECTED\)"


def all_traced(fault: Fault, evidence: Evidence) -> bool:
    """Whether the kernel says that each thread of the rank is traced, and that none was."""
    before, after = evidence.before, evidence.after
    return before is not None and after is not None and not before.traced and bool(after.traced) and not after.free


def look_at_tracer(fault: Fault, target: Target) -> Traced:
    """Look at the rank's threads, and read again what its tracer has written."""
    tracers = []
    # A rank, or a thread, may end meanwhile.
    with contextlib.suppress(OSError, KeyError, ValueError):
        for task in Path(f"/proc/{target.pid}/task").iterdir():
            tracers.append(int(fields(f"{task}/status")["TracerPid"]))
    said = target.kept.get("said")
    text = os.pread(said, os.fstat(said).st_size, 0).decode(errors="replace") if said is not None else ""
    return Traced(len(tracers) - tracers.count(0), tracers.count(0), text)


def now_frozen(fault: Fault, evidence: Evidence) -> str | None:
    """The kernel says that the group that the rank is in is frozen, and that it was not."""
    return "the control group's freezer: all of it stands still" if evidence.after and not evidence.before else None


def look_at_freezer(fault: Fault, target: Target) -> bool:
    """Whether the rank's group is frozen."""
    return frozen(target.pid)


@dataclass(frozen=True)
class Witness:
    """`judge` says what was seen, or None; `look` reads something outside of the injector, before and after.

    `set` says that all is ready for what only comes when the rank goes on: it is let go, and the strike lands later.
    """

    judge: Callable[[Fault, Evidence], str | None]
    look: Callable[[Fault, Target], Any] | None = None
    set: Callable[[Fault, Evidence], bool] | None = None


WITNESSES: Mapping[str, Witness] = {
    "ended": Witness(ended),
    "stopped": Witness(stopped),
    "continued": Witness(continued),
    "told to go": Witness(told_to_go, look_at_sigterm),
    "parameters": Witness(parameters),
    "gradients": Witness(gradients),
    "batch": Witness(batch),
    "shard": Witness(shard, look_at_shard),
    "link": Witness(link, look_at_links),
    "store": Witness(store, look_at_store),
    "disk": Witness(lowered, partial(look_at_size, "")),
    "shared memory": Witness(lowered, partial(look_at_size, SHARED_MEMORY)),
    "read-only": Witness(now_read_only, look_at_mount),
    "reads": Witness(failing_reads, look_at_reads),
    "call": Witness(failed_call, look_at_tracer, all_traced),
    "frozen": Witness(now_frozen, look_at_freezer),
    "memory": Witness(lowered, partial(look_at_bound, "memory", "bytes")),
    "cpu": Witness(lowered, partial(look_at_bound, "cpu", "cores")),
    "pids": Witness(lowered, partial(look_at_bound, "pids", "processes")),
    "closed ways": Witness(closed_ways, look_at_ways),
    "disconnected": Witness(disconnected, look_at_container),
    "lossy ways": Witness(lossy_ways, look_at_ways),
    "port": Witness(port, look_at_port),
    "names": Witness(names, look_at_names),
    "late": Witness(late, look_at_delay),
    "twice": Witness(twice, look_at_way_out),
    "damaged": Witness(damaged, look_at_way_out),
    "held back": Witness(held_back, look_at_queue),
    "address space": Witness(lowered, partial(look_at_limit, "address space")),
    "file size": Witness(lowered, partial(look_at_limit, "file size")),
    "descriptors": Witness(lowered, partial(look_at_limit, "open files")),
    "issued": Witness(issued),
    "took": Witness(took),
    "clock": Witness(jumped),
    "resident": Witness(paged_out, look_at_pages),
    "neighbours": Witness(crowded, look_at_neighbours),
    "spins": Witness(spins, look_at_main_thread),
    "stuck": Witness(stuck, look_at_main_thread),
}
