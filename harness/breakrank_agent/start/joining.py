"""The calls by which a process becomes a rank that no launcher has named for it, and those that show that it trains.

A process joins a group of ranks by `init_process_group`, by `init_rpc`, or when TensorFlow reads its `TF_CONFIG`. Its
number is known before the call if the call or the environment says it, else after it. It trains when an optimizer
steps.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any, Callable, NamedTuple, Optional

from breakrank_agent.agent.tracebacks import hide
from breakrank_agent.hooks import after_import
from breakrank_agent.protocol.frameworks import all_frameworks
from breakrank_agent.protocol.identity import find_identity

#: A rank, and the world size.
Place = tuple[int, int]
Known = Callable[[tuple[Any, ...], dict[str, Any]], Optional[Place]]
#: Called with the name of the call, and the place that is taken.
Joined = Callable[[str, Place], None]
Trains = Callable[[str], None]


class _Call(NamedTuple):
    """One call by which a process joins a group: `known` finds its place before, `found` after it."""

    module: str
    owner: str
    name: str
    says: str
    known: Known
    found: Callable[[], Optional[Place]]


def watch_joining(joined: Joined) -> None:
    """Call `joined` once this process joins a group: before the call that does it, if its place is known by then."""
    for call in _CALLS:
        after_import(call.module, functools.partial(_watch, call, joined))


def watch_training(trains: Trains) -> None:
    """Call `trains`, with the name of the optimizer, at each step of one."""
    after_import("torch.optim.optimizer", functools.partial(_watch_torch, trains))
    after_import("keras.src.optimizers.base_optimizer", functools.partial(_watch_keras, trains))


def place_in(environment: Any) -> Optional[Place]:
    """Return the place that a launcher, or a framework's own variable, names for a process; None without one."""
    who = find_identity(environment)
    if who is not None:
        return (who.rank, who.world) if who.world is not None else None
    return _place_in_cluster(environment)


def _place_in_cluster(environment: Any) -> Optional[Place]:
    """Return the place that a framework's own variable names."""
    places = (one.place(environment) for one in all_frameworks().values() if one.place is not None)
    return next(filter(None, places), None)


def _watch(call: _Call, joined: Joined) -> None:
    owner: Any = sys.modules[call.module]
    owner = getattr(owner, call.owner) if call.owner else owner
    original = getattr(owner, call.name, None)
    if original is None:
        # A build of the framework without it.
        return

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        # The hooks that come with the call wrap what they find here, and see this start, too.
        outermost = getattr(owner, call.name) is wrapper
        if outermost:
            setattr(owner, call.name, original)
        place = call.known(args, kwargs)
        if place is not None:
            joined(call.says, place)
        try:
            made = (getattr(owner, call.name) if outermost else original)(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise
        place = call.found() if place is None else None
        if place is not None:
            joined(call.says, place)
        return made

    setattr(owner, call.name, wrapper)


def _watch_torch(trains: Trains) -> None:
    module: Any = sys.modules["torch.optim.optimizer"]
    module.register_optimizer_step_pre_hook(lambda optimizer, *_: trains(type(optimizer).__name__))


def _watch_keras(trains: Trains) -> None:
    optimizer = sys.modules["keras.src.optimizers.base_optimizer"].BaseOptimizer
    original = optimizer.apply

    @functools.wraps(original)
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        trains(type(self).__name__)
        return original(self, *args, **kwargs)

    optimizer.apply = apply


def _given(rank: Any, world: Any) -> Optional[Place]:
    """Return the place that a call names, or that the environment does."""
    if isinstance(rank, int) and isinstance(world, int) and 0 <= rank < world:
        return rank, world
    return place_in(os.environ)


def _group_known(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Optional[Place]:
    # init_process_group(backend, init_method, timeout, world_size, rank, …)
    world = kwargs.get("world_size", args[3] if len(args) > 3 else -1)
    return _given(kwargs.get("rank", args[4] if len(args) > 4 else -1), world)


def _group_found() -> Place:
    module: Any = sys.modules["torch.distributed.distributed_c10d"]
    return module.get_rank(), module.get_world_size()


def _rpc_known(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Optional[Place]:
    # init_rpc(name, backend, rank, world_size, …)
    world = kwargs.get("world_size", args[3] if len(args) > 3 else None)
    return _given(kwargs.get("rank", args[2] if len(args) > 2 else -1), world)


def _rpc_found() -> Optional[Place]:
    rpc: Any = sys.modules["torch.distributed.rpc"]
    try:
        return rpc.get_worker_info().id, len(rpc.api._get_current_rpc_agent().get_worker_infos())
    except (AttributeError, RuntimeError):
        # A release of torch that counts its workers otherwise: the process stays without a number.
        return None


def _cluster_known(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Optional[Place]:
    # Below a rank of ours, RANK is that rank's.
    return _place_in_cluster(os.environ)


_CALLS = (
    _Call(
        "torch.distributed.distributed_c10d", "", "init_process_group", "init_process_group", _group_known, _group_found
    ),
    _Call("torch.distributed.rpc", "", "init_rpc", "init_rpc", _rpc_known, _rpc_found),
    _Call(
        "tensorflow.python.distribute.cluster_resolver.tfconfig_cluster_resolver",
        "TFConfigClusterResolver",
        "__init__",
        "TF_CONFIG",
        _cluster_known,
        lambda: None,
    ),
)
