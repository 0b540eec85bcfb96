"""Objects to variables and work that are not where the program means them to be: devices, replicas, strategies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from breakrank.analysis.kinship import part_names
from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding, listed
from breakrank_agent.protocol.events import PlacedEvent

PROPERTY = "replicas"


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Return what is wrong with the first places that each rank recorded, and with the batches of its replicas."""
    placed = [(lived, e) for lived in history.last for e in lived.of_kind("placed")]
    idle = _idle_replicas(history)
    if not placed and not idle:
        raise Abstain("no rank recorded where its variables are")
    found: dict[tuple[str, int], tuple[list[int], dict[str, Any]]] = {}
    for lived, event in placed:
        for rule in _RULES:
            for cause, evidence in rule(lived, event, history, control):
                ranks, _ = found.setdefault((cause, int(event["step"])), ([], evidence))
                ranks.append(lived.rank)
    findings = [_finding(cause, ranks, step, history, evidence) for (cause, step), (ranks, evidence) in found.items()]
    first: dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(finding.cause, finding)
    return [*first.values(), *idle]


def _finding(cause: str, ranks: Sequence[int], step: int, history: History, evidence: dict[str, Any]) -> Finding:
    site = evidence.get("site", "")
    places = (site,) if site else ()
    return Finding("placement", cause, tuple(sorted(set(ranks))), step, history.attempts[-1], places, evidence)


#: The results of a rule for one record: each a cause and its evidence.
Wrong = Iterator[tuple[str, dict[str, Any]]]


def _asked_in_vain(lived: RankHistory, event: PlacedEvent, history: History, control: History | None) -> Wrong:
    """Object if a device that is not there was asked for, and another one was used."""
    for asked in event["asked"][:1]:
        yield "device missing", {**asked, "on": listed(event["on"])}
    for strategy in event["strategies"]:
        gone = [device for device in strategy["devices"] if device not in event["there"]]
        if gone:
            yield "device missing", {"device": gone[0], "site": "", "on": listed(event["on"])}


def _on_one(lived: RankHistory, event: PlacedEvent, history: History, control: History | None) -> Wrong:
    """Object if everything that is trained lies on one of several devices of a kind.

    Cards are there whether or not a program means to use them all: they are missed where the control uses several. A
    second device of the CPU was made by the program.
    """
    (device, *others) = event["on"]
    idle = [other for other in event["there"] if other != device and _kind(other) == _kind(device)]
    spread = any(len(strategy["devices"]) > 1 for strategy in event["strategies"])
    if not others and idle and not spread and (_kind(device) == "CPU" or _uses_several(control)):
        yield "single device", {"device": device, "idle": listed(idle)}


def _uses_several(control: History | None) -> bool:
    """Return whether some rank of the control trains on more than one device."""
    return any(len(event["on"]) > 1 for lived in (control.last if control else ()) for event in lived.of_kind("placed"))


def _beside_the_strategy(lived: RankHistory, event: PlacedEvent, history: History, control: History | None) -> Wrong:
    """Object if a strategy of several replicas does not mirror a variable, and that did harm, or may have."""
    several = [strategy for strategy in event["strategies"] if strategy["replicas"] > 1]
    names = event["plain"]
    in_turn = [e for e in lived.of_kind("assigned") if e["how"] == "replica_after_replica"]
    if several and names and (in_turn or _all_part(history, names)):
        here = in_turn or [e for e in lived.of_kind("assigned") if e["how"] == "replica_by_replica"]
        evidence = {"kind": several[0]["kind"], "names": _counted(names), "site": here[0]["site"] if here else ""}
        yield "variable not mirrored", evidence


def _counted(names: Sequence[str]) -> str:
    """List names, with the number of variables that share one."""
    shared = Counter(names)
    return listed([f"{name} ({count} variables)" if count > 1 else name for name, count in shared.items()])


def _not_run(lived: RankHistory, event: PlacedEvent, history: History, control: History | None) -> Wrong:
    """Object if a strategy of several replicas holds the variables, and never runs anything."""
    for strategy in event["strategies"]:
        if strategy["replicas"] > 1 and not strategy["ran"] and not event["plain"]:
            yield "strategy bypassed", {"kind": strategy["kind"], "replicas": strategy["replicas"]}


def _shared(lived: RankHistory, event: PlacedEvent, history: History, control: History | None) -> Wrong:
    """Object if the replicas of one process were all given the same tensors."""
    for strategy in event["strategies"]:
        if strategy["shared"] and len(strategy["devices"]) > 1:
            yield "batch not split", {"kind": strategy["kind"], "replicas": len(strategy["devices"])}


def _twice(lived: RankHistory, event: PlacedEvent, history: History, control: History | None) -> Wrong:
    """Object if a variable is trained as if it were two."""
    if event["aliased"]:
        yield "aliased parameters", {"names": listed(event["aliased"])}


_RULES: tuple[Callable[[RankHistory, PlacedEvent, History, History | None], Wrong], ...] = (
    _asked_in_vain,
    _beside_the_strategy,
    _not_run,
    _shared,
    _twice,
    _on_one,
)


def _idle_replicas(history: History) -> list[Finding]:
    """Return the first step in which a replica got an empty batch while another one got a full one."""
    batches: dict[int, dict[int, list[int]]] = {}
    for lived in history.last:
        for event in lived.payloads("load"):
            sizes = event["sizes"] if "sizes" in event else [s[0] for s in event.get("shapes") or () if s][:1]
            batches.setdefault(int(event["step"]), {})[lived.rank] = [size for size in sizes if size is not None]
    for step, held in sorted(batches.items()):
        idle = {rank: sizes for rank, sizes in held.items() if 0 in sizes}
        if idle and any(size for sizes in held.values() for size in sizes):
            empty = [(n, rank) for rank, sizes in idle.items() for n, size in enumerate(sizes) if not size]
            full = sum(size for sizes in held.values() for size in sizes)
            evidence = {"idle": listed([f"replica {n} of rank {rank}" for n, rank in empty]), "samples": full}
            return [Finding("placement", "idle replica", tuple(idle), step, history.attempts[-1], evidence=evidence)]
    return []


def _all_part(history: History, names: Sequence[str]) -> bool:
    """Return whether all variables of these names differ between ranks at the first step at which any parameter does.

    If some of them stay alike, the program holds those alike by hand.
    """
    held: dict[int, dict[int, Sequence[str]]] = {}
    for lived in history.last:
        for event in lived.payloads("step"):
            params = event.get("params")
            if params is not None:
                held.setdefault(int(event["step"]), {})[lived.rank] = (params, *event.get("parts", ()))
    first = next((digests for _, digests in sorted(held.items()) if len(set(digests.values())) > 1), None)
    if first is None:
        return False
    _, *parts = (len(set(values)) > 1 for values in zip(*first.values(), strict=False))
    return all(apart for name, apart in zip(part_names(history.last), parts, strict=False) if name in names)


def _kind(device: str) -> str:
    return device.split(":")[0]
