"""Objects to gradients and optimizers that no training wants, whatever it is for.

Optimizers of what is not in use, gradients that end at a collective or that nothing zeroes, samples that weigh
otherwise on each rank, and training in eval mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from breakrank.analysis.clip_norms import find_miscounted, find_own_norms
from breakrank.analysis.kinship import part_names
from breakrank.analysis.loss_weights import find_unequal
from breakrank.analysis.shard_losses import find_added_up, find_parted
from breakrank.analysis.wait_for import SPOKEN
from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding

PROPERTY = "gradients and optimizer"


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Look at what the hooks of torch say of its optimizers, in the last attempt."""
    if not any(lived.of_kind("inputs") for lived in history.last):
        raise Abstain("no optimizer of torch was seen to step")
    cut = _cut(history)
    # Parameters behind a collective that cuts the graph have no gradient for that reason.
    untrained = [] if cut else _untrained(history)
    found = [
        *_stray(history),
        *cut,
        *_weights(history),
        *_unzeroed(history),
        *untrained,
        *_forgotten(history),
        *_norms(history),
        *_of_shards(history),
        *_unawaited(history),
    ]
    return [*found, *_modes(history), *_dropout(history), *_frozen(history), *_spectral(history), *_scaled(history)]


def _told(history: History, kind: str) -> dict[int, Mapping[str, Any]]:
    """Return the first event of a kind of each rank of the last attempt that has one."""
    events = [(lived.rank, event) for lived in history.last for event in lived.events if event["kind"] == kind]
    return dict(reversed(events))


def _untrained(history: History) -> list[Finding]:
    """Return the finding that parameters had no gradient in any of the first steps, on no rank."""
    told = _told(history, "untrained")
    trained = [lived.rank for lived in history.last if lived.of_kind("inputs")]
    if not told or not set(trained) <= told.keys():
        return []
    event = told[min(told)]
    site = str(event.get("checkpoint", ""))
    cause = "checkpoint without gradients" if "checkpoint" in event else "never trained"
    evidence = {
        "parameters": event["parameters"],
        "name": event["names"][0],
        "more": f" and {event['parameters'] - 1} more" if event["parameters"] > 1 else "",
        "at": f" ({site})" if site else "",
    }
    places, ranks = (site,) if site else (), tuple(sorted(told))
    cause = "zeros by zeros" if event.get("zeros") else cause
    return [Finding("optimizers", cause, ranks, 1, history.attempts[-1], places, evidence)]


def _unawaited(history: History) -> list[Finding]:
    """Return the finding that optimizers took gradients on which a collective was at work, or may have been."""
    told = _told(history, "unawaited")
    if not told:
        return []
    event = told[min(told)]
    names = part_names([history.ranks[history.attempts[-1], min(told)]])
    name = names[event["part"]] if event["part"] < len(names) else "a parameter"
    site = event["site"]
    evidence = {"op": SPOKEN.get(event["op"], event["op"]), "site": site or "no line of its own", "name": name}
    step = max(1, min(int(one["step"]) for one in told.values()))
    places, ranks = (site,) if site else (), tuple(sorted(told))
    return [Finding("optimizers", "not waited for", ranks, step, history.attempts[-1], places, evidence)]


def _dropout(history: History) -> list[Finding]:
    """Return the finding that elements are dropped in a validation."""
    told = _told(history, "dropout")
    if not told:
        return []
    event = told[min(told)]
    step = max(1, min(int(one["step"]) for one in told.values()))
    places = (event["site"],) if event["site"] else ()
    evidence = {"at": f" ({event['site']})" if event["site"] else ""}
    ranks = tuple(sorted(told))
    return [Finding("optimizers", "dropout in eval mode", ranks, step, history.attempts[-1], places, evidence)]


def _cut(history: History) -> list[Finding]:
    """Return the finding that gradients end at a collective whose result goes into the loss."""
    told = _told(history, "cut")
    if not told:
        return []
    event = told[min(told)]
    evidence = {"op": SPOKEN.get(event["op"], event["op"]), "site": event["site"] or "no line of its own"}
    places = (event["site"],) if event["site"] else ()
    step = min(int(one["step"]) for one in told.values())
    return [Finding("optimizers", "graph cut", tuple(sorted(told)), step, history.attempts[-1], places, evidence)]


def _weights(history: History) -> list[Finding]:
    """Return the finding that a wrapper averages losses in which a sample weighs otherwise on each rank."""
    unequal = find_unequal(history.last)
    if unequal is None:
        return []
    cause = "unequal batches" if unequal.batches else "loss scale differs"
    ranks = tuple(lived.rank for lived in history.last)
    return [Finding("optimizers", cause, ranks, unequal.step, history.attempts[-1], evidence={"said": unequal.said})]


def _norms(history: History) -> list[Finding]:
    """Return the finding that ranks clip by a norm which leaves out parts of the gradients, or counts them often."""
    wrong = find_miscounted(history.last) or find_own_norms(history.last)
    if wrong is None:
        return []
    evidence = {"said": wrong.said, "at": f" ({wrong.site})" if wrong.site else ""}
    places = (wrong.site,) if wrong.site else ()
    return [Finding("optimizers", "norm miscounted", wrong.ranks, wrong.step, history.attempts[-1], places, evidence)]


def _of_shards(history: History) -> list[Finding]:
    """Return the findings that ranks with shards of one model have several losses, or add up what they have alike."""
    attempt, parted, added = history.attempts[-1], find_parted(history.last), find_added_up(history.last)
    found = []
    if parted is not None:
        evidence = {"said": parted.said}
        found.append(Finding("optimizers", "losses differ", parted.ranks, parted.step, attempt, evidence=evidence))
    if added is not None:
        op = SPOKEN.get(added.op, added.op)
        evidence = {"op": op, "site": added.site or "no line of its own", "numbers": str(added.numbers)}
        places = (added.site,) if added.site else ()
        found.append(Finding("optimizers", "replicas added up", added.ranks, added.step, attempt, places, evidence))
    return found


def _stray(history: History) -> list[Finding]:
    """Return the finding that optimizers step parameters of no module in use, and those in use are in none."""
    told = _told(history, "stray")
    if not told:
        return []
    event = told[min(told)]
    evidence = {"optimizer": event["optimizer"], "parameters": event["parameters"], "unowned": event["unowned"][0]}
    cause = "optimizer of frozen parameters" if event.get("frozen") else "stray optimizer"
    # It is looked for after the second step, and was so from the first.
    return [Finding("optimizers", cause, tuple(sorted(told)), 1, history.attempts[-1], evidence=evidence)]


def _forgotten(history: History) -> list[Finding]:
    """Return the finding that parameters have a gradient and no optimizer, unless they move by other means."""
    told = _told(history, "forgotten")
    if not told or any(event.get("moved") for lived in history.last for event in lived.of_kind("forgotten")):
        return []
    event = told[min(told)]
    several = event["parameters"] > 1
    evidence = {
        "parameters": event["parameters"],
        "name": event["names"][0],
        "more": f" and {event['parameters'] - 1} more" if several else "",
        "them": "them" if several else "it",
    }
    return [Finding("optimizers", "in no optimizer", tuple(sorted(told)), 1, history.attempts[-1], evidence=evidence)]


def _frozen(history: History) -> list[Finding]:
    """Return the finding that parameters were frozen after their wrapper was made, or after they were trained."""
    told = _told(history, "frozen")
    if not told:
        return []
    event = told[min(told)]
    evidence = {
        "name": event["name"],
        "more": f" and {event['parameters'] - 1} more" if event["parameters"] > 1 else "",
        "at": f" ({event['site']})" if event["site"] else "",
        "why": "the wrapper, which was made before, waits for a gradient in vain"
        if event["wrapped"]
        else f"train(), which freezes them, was not called before, and {event['steps']} steps had trained them",
    }
    places = (event["site"],) if event["site"] else ()
    step = max(1, int(event["step"]))
    return [Finding("optimizers", "frozen too late", tuple(sorted(told)), step, history.attempts[-1], places, evidence)]


def _spectral(history: History) -> list[Finding]:
    """Return the finding that a weight was evaluated before its spectral norm was fitted."""
    told = _told(history, "spectral")
    if not told:
        return []
    event = told[min(told)]
    at = f" ({event['site']})" if event["site"] else ""
    evidence = {"name": event["name"], "ratio": f"{event['ratio']:.3g}", "at": at}
    places, ranks = (event["site"],) if event["site"] else (), tuple(sorted(told))
    return [Finding("optimizers", "spectral norm not fitted", ranks, 1, history.attempts[-1], places, evidence)]


def _scaled(history: History) -> list[Finding]:
    """Return the finding that gradients were clipped before they were unscaled."""
    told = _told(history, "scaled_clip")
    if not told:
        return []
    event = told[min(told)]
    at = f" ({event['site']})" if event["site"] else ""
    evidence = {"limit": f"{event['limit']:.3g}", "scale": f"{event['scale']:g}", "at": at}
    places, ranks = (event["site"],) if event["site"] else (), tuple(sorted(told))
    step = max(1, min(int(one["step"]) for one in told.values()))
    return [Finding("optimizers", "clipped while scaled", ranks, step, history.attempts[-1], places, evidence)]


def _unzeroed(history: History) -> list[Finding]:
    """Return the finding that nothing zeroes the gradients of an optimizer between its steps."""
    told = _told(history, "unzeroed")
    if not told:
        return []
    event = told[min(told)]
    evidence = {"optimizer": event["optimizer"], "steps": event["steps"]}
    ranks = tuple(sorted(told))
    return [Finding("optimizers", "gradients not zeroed", ranks, 2, history.attempts[-1], evidence=evidence)]


def _modes(history: History) -> list[Finding]:
    """Return the finding that ranks stay in eval mode until the end, or train in it while others are in train mode.

    A program may train in eval mode from the start, which is a choice.
    """
    modes = {lived.rank: _mode_by_step(lived) for lived in history.last}
    left, first = set(), 0
    for lived in history.last:
        steps = [step for step, train in sorted(modes[lived.rank].items()) if train]
        since = steps[-1] + 1 if steps else 0
        alone = [step for step, train in modes[lived.rank].items() if not train and _others_train(modes, step)]
        stays = since and lived.last_step > since
        begins = min([*alone, *([since] if stays else [])], default=0)
        if begins:
            left.add(lived.rank)
            first = min(first or begins, begins)
    if not left:
        return []
    others = "" if len(left) == len(modes) else ", and the others in train mode"
    evidence = {"others": others}
    return [Finding("optimizers", "eval mode", tuple(sorted(left)), first, history.attempts[-1], evidence=evidence)]


def _others_train(modes: Mapping[int, Mapping[int, bool]], step: int) -> bool:
    return any(own.get(step) for own in modes.values())


def _mode_by_step(lived: RankHistory) -> dict[int, bool]:
    """Return by step whether the first optimizer's modules were in train mode; nothing if nothing depends on that."""
    events = {int(e["step"]): bool(e["train"]) for e in lived.of_kind("mode") if e["optimizer"] == 1}
    found: dict[int, bool] = {}
    if events:
        now = events[min(events)]
        for step in range(min(events), lived.last_step + 1):
            now = found[step] = events.get(step, now)
    return found
