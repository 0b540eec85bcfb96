"""Consistency of replicas: the parameters, and whether their gradients went through the wrapper.

A step of which nothing is on record here is one in which every parameter had a gradient, and, where there is a
DistributedDataParallel, its last forward pass was to reduce them. Only runs that digest steps are watched.
"""

from __future__ import annotations

import sys
import weakref
from operator import attrgetter
from typing import Any, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose, receiver
from breakrank_agent.agent.parameter_digest import NAME_LIMIT, in_parts, name_part
from breakrank_agent.hooks import after_import
from breakrank_agent.hooks.torch.tensor_memory import held_of
from breakrank_agent.hooks.torch.training import Training, parameters_of

WAITS_FOR = "torch"

_gradient_of = attrgetter("grad")
#: Attributes that mark a parameter as divided among the ranks.
_MARKS = ("tensor_model_parallel", "model_parallel")


def install(agent: Agent) -> None:
    """Watch every DistributedDataParallel, and look at the optimizer's parameters after each step."""
    import torch

    if agent.plan.digests == "none" or not torch.distributed.is_available():
        return
    wrappers = _Wrappers()
    wrappers.watch()
    stages = _Stages()
    after_import("torch.distributed.pipelining.stage", stages.watch)
    agent.on.step_end.append(_Parameters(agent, wrappers, stages).look)


class _Wrappers:
    """Every DistributedDataParallel of this rank, and whether the last forward pass through one was to reduce."""

    def __init__(self) -> None:
        self._all: list[weakref.ref[Any]] = []
        self.reduces: Optional[bool] = None

    def watch(self) -> None:
        """See every instance, and wrap the forward pass; the backward pass does what the forward pass prepared.

        An instance is seen before its constructor runs: a frame of ours around that would show in its warnings.
        """
        import torch
        from torch.nn.parallel import DistributedDataParallel

        create = DistributedDataParallel.__new__

        def creating(kind: Any, *args: Any, **kwargs: Any) -> Any:
            wrapper = create(kind)
            self._all.append(weakref.ref(wrapper))
            return wrapper

        def passing(wrapper: Any, *_: Any, **__: Any) -> None:
            if torch.is_grad_enabled():
                self.reduces = wrapper.require_backward_grad_sync

        DistributedDataParallel.__new__ = creating
        interpose(DistributedDataParallel, "forward", passing)

    def alive(self) -> list[Any]:
        """Return the wrappers that are still in use."""
        return [wrapper for known in self._all if hasattr(wrapper := known(), "_module_parameters")]


class _Stages:
    """The stages of a pipeline that this rank holds: the others' parameters may have the same names, and are others."""

    def __init__(self) -> None:
        self._all: list[tuple[int, weakref.ref[Any]]] = []

    def watch(self) -> None:
        """See every stage that is made. One without a number, or without a module, is none that we know."""
        from torch.distributed.pipelining.stage import _PipelineStageBase as kind

        def begun(stage: Any, _: Any) -> None:
            module, number = getattr(stage, "submod", None), getattr(stage, "stage_index", None)
            if module is not None and number is not None:
                self._all.append((number, weakref.ref(module)))

        interpose(kind, "__init__", receiver, begun)

    def numbers(self) -> dict[int, int]:
        """Return the stage that each parameter belongs to, by its identity."""
        alive = [(number, module) for number, known in self._all if (module := known()) is not None]
        return {id(parameter): number for number, module in alive for parameter in module.parameters()}


class _Parameters:
    """The parameters of the optimizers, as they are after each step."""

    def __init__(self, agent: Agent, wrappers: _Wrappers, stages: _Stages) -> None:
        self._agent = agent
        self._wrappers = wrappers
        self._stages = stages
        self._known: list[int] = []
        #: The parameters of the only wrapper, by identity: as it has them, and to look them up.
        self._wrapped: list[int] = []
        self._wrapped_ids: frozenset[int] = frozenset()

    def look(self) -> None:
        """Record the names of parameters that are new, and what kept their gradients from being reduced."""
        training = self._agent.model.handles
        # It may be another framework that trains in this rank.
        parameters = training.parameters() if isinstance(training, Training) else []
        if not isinstance(training, Training) or not parameters:
            return
        wrappers = self._wrappers.alive()
        here = list(map(id, parameters))
        if here != self._known:
            self._known, parts = here, in_parts(parameters)
            modules = [getattr(module, "module", module) for module in (*wrappers, *_alive(training.modules))]
            names = _name(parts, modules, self._stages.numbers(), training.optimizers.all())
            facts = {"eps": _coarsest(parameters), "sizes": _sizes(parts), **_sharded(training, parts)}
            self._agent.record("names", names=names, **facts)
        found = {} if self._is_well(parameters, wrappers) else self._unsynced(training, parameters, wrappers)
        if found:
            self._agent.record("unsynced", **found)

    def _is_well(self, parameters: list[Any], wrappers: list[Any]) -> bool:
        """Return whether every parameter has a gradient, and is one of the only wrapper, which was to reduce them.

        Each step asks for it: no turn of a loop of ours for each parameter.
        """
        if type(None) in set(map(type, map(_gradient_of, parameters))):
            return False
        if not wrappers:
            return True
        if len(wrappers) > 1 or self._wrappers.reduces is not True:
            return False
        wrapped = list(map(id, wrappers[0]._module_parameters))
        if wrapped != self._wrapped:
            self._wrapped, self._wrapped_ids = wrapped, frozenset(wrapped)
        if not self._wrapped_ids.issuperset(self._known):
            return False
        self._wrappers.reduces = None
        return True

    def _unsynced(self, training: Training, parameters: list[Any], wrappers: list[Any]) -> dict[str, Any]:
        """Return what kept gradients from being reduced; what is well is seen without a look at each part."""
        asking = [p for p in parameters if p.requires_grad]
        lacking = [p for p in asking if p.grad is None]
        found: dict[str, Any] = {"missing": _which(parameters, lacking)}
        if wrappers:
            wrapped = {id(parameter) for wrapper in wrappers for parameter in wrapper._module_parameters}
            unwrapped = [p for p in asking if id(p) not in wrapped]
            inside = {id(p) for wrapper in wrappers for p in wrapper.module.parameters()} if unwrapped else set()
            late = _made_later(wrappers, wrapped) if unwrapped else set()
            found["unwrapped"] = _which(parameters, unwrapped)
            found["outside"] = _which(parameters, [p for p in unwrapped if id(p) not in inside])
            found["late"] = _which(parameters, [p for p in unwrapped if id(p) in late])
            reduces, self._wrappers.reduces = self._wrappers.reduces, None
            found["bypassed"], found["unreduced"] = reduces is None, reduces is False
            # Without a gradient that it was not told to do without, a wrapper never reduces those of the same bucket.
            own = set(map(id, parameters_of(training.optimizers.first))) & wrapped if lacking else set()
            lacks = any(id(p) in own for p in lacking)
            found["unfinished"] = bool(lacks and reduces and not any(map(_spares, wrappers)))
        return {name: value for name, value in found.items() if value}


def _alive(references: list[Any]) -> list[Any]:
    return [module for known in references if (module := known()) is not None]


def _made_later(wrappers: list[Any], wrapped: set[int]) -> set[int]:
    """Return the parameters that modules have got since they were wrapped, by identity.

    All ranks are to hold them alike, but for those that a wrapper was told to leave alone, which it knows by name.
    """
    return {
        id(parameter)
        for wrapper in wrappers
        for name, parameter in wrapper.module.named_parameters()
        if id(parameter) not in wrapped and name not in wrapper.parameters_to_ignore
    }


def _spares(wrapper: Any) -> bool:
    """Return whether a wrapper looks in each step for parameters that are not used."""
    return bool(wrapper.find_unused_parameters or wrapper.static_graph)


def _sharded(training: Training, parts: list[list[Any]]) -> dict[str, Any]:
    """Return the parts of which each rank has a shard: no other rank has the same, nor is meant to."""
    kind = getattr(sys.modules.get("torch.distributed.fsdp"), "FullyShardedDataParallel", ())
    modules = [inner for module in _alive(training.modules) for inner in module.modules() if isinstance(inner, kind)]
    flat = any(module.sharding_strategy.name != "NO_SHARD" for module in modules)
    sharded = [number for number, part in enumerate(parts) if flat or any(map(_is_sharded, part))]
    if not sharded:
        return {}
    return {"sharded": sharded, "shards": [".".join(map(_shard_of, parts[number])) for number in sharded]}


def _is_sharded(parameter: Any) -> bool:
    """Return whether a parameter is divided among several ranks: a DTensor, or one that its maker has marked.

    Megatron-style code marks plain tensors: what is divided by tensor or model parallelism, and what is an expert's.
    """
    if (
        any(getattr(parameter, mark, False) is True for mark in _MARKS)
        or getattr(parameter, "allreduce", True) is False
    ):
        return True
    return bool(_divided_along(parameter))


def _divided_along(parameter: Any) -> list[int]:
    """Return the axes of its mesh along which a DTensor is divided."""
    placements, mesh = getattr(parameter, "placements", ()), getattr(parameter, "device_mesh", None)
    return [axis for axis, p in enumerate(placements) if mesh is not None and p.is_shard() and mesh.size(axis) > 1]


def _shard_of(parameter: Any) -> str:
    """Return which shard of a DTensor a rank has, by its place along the axes that divide it; empty if none says it."""
    axes = _divided_along(parameter)
    place = parameter.device_mesh.get_coordinate() if axes else None
    return "-".join(str(place[axis]) for axis in axes) if place is not None else ""


def _sizes(parts: list[list[Any]]) -> list[int]:
    """Return how many elements of each part this rank has: of a whole all of them, of one that is divided its shard."""
    return [sum(held.numel() for parameter in part for held in held_of(parameter)) for part in parts]


def _coarsest(parameters: list[Any]) -> float:
    """Return the distance from 1 to the next number in the dtype with the fewest digits; 0 without floating point."""
    import torch

    return max((torch.finfo(p.dtype).eps for p in parameters if p.is_floating_point()), default=0.0)


def _which(parameters: list[Any], some: list[Any]) -> list[int]:
    """Return the parts that have one of some parameters."""
    if not some:
        return []
    chosen = set(map(id, some))
    return [number for number, part in enumerate(in_parts(parameters)) if any(id(p) in chosen for p in part)]


def _name(parts: list[list[Any]], modules: list[Any], stages: dict[int, int], optimizers: list[Any]) -> list[str]:
    """Return a name for each part: of its first parameter, in the module that was found first, or its number.

    The name of a parameter of a pipeline's stage begins with the stage. If parameters of two optimizers have one name,
    it ends with the class of the module and the number of the optimizer.
    """
    names: dict[int, tuple[str, str]] = {}
    for module in modules:
        for name, parameter in module.named_parameters():
            names.setdefault(id(parameter), (name[:NAME_LIMIT], type(module).__name__[:NAME_LIMIT]))
    owners = _owners(optimizers)
    known: dict[str, set[int]] = {}
    for part in parts:
        if id(part[0]) in names:
            known.setdefault(names[id(part[0])][0], set()).add(owners.get(id(part[0]), 0))
    number, found = 0, []
    for part in parts:
        (first, kind), stage = names.get(id(part[0]), (f"parameter {number}", "")), stages.get(id(part[0]))
        if len(known.get(first, ())) > 1:
            first = f"{first} of {kind} (optimizer {owners.get(id(part[0]), 0) + 1})"
        found.append(name_part(first if stage is None else f"stage {stage}: {first}", part))
        number += len(part)
    return found


def _owners(optimizers: list[Any]) -> dict[int, int]:
    """Return the number of the optimizer that has each parameter, by its identity; of several, the first."""
    owners: dict[int, int] = {}
    for number, optimizer in enumerate(optimizers):
        for parameter in parameters_of(optimizer):
            owners.setdefault(id(parameter), number)
    return owners
