"""Placement: the devices of a TensorFlow program's variables, the strategies, and the devices that were asked for."""

from __future__ import annotations

import weakref
from typing import Any, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.hooks.tensorflow.training import Training, line_here, training_of
from breakrank_agent.hooks.tensorflow.variables import components, name_of

WAITS_FOR = "tensorflow"

#: The most names of variables, and the most devices that were asked for, on record.
MOST = 20


def install(agent: Agent) -> None:
    """Wrap strategies and `tf.device`, and look where the variables are after each step."""
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib
    from tensorflow.python.framework import ops

    if agent.plan.digests == "none":
        return
    placement = _Placement(agent, training_of(agent))
    placement.watch_strategies(distribute_lib.StrategyBase)
    tf.device = interpose(ops, "device_v2", placement.ask)
    agent.on.step_end.append(placement.look)


class _Placement:
    """The devices, and the variables and strategies that use them."""

    def __init__(self, agent: Agent, training: Training) -> None:
        self._agent = agent
        self._training = training
        self._strategies: list[weakref.ref[Any]] = []
        self._ran: weakref.WeakSet[Any] = weakref.WeakSet()
        #: Those that have given the same tensors to all of their replicas.
        self._shared: weakref.WeakSet[Any] = weakref.WeakSet()
        #: The devices that were asked for, with the line that asked first.
        self._asked: dict[str, str] = {}
        self._known: Optional[dict[str, Any]] = None

    def watch_strategies(self, kind: Any) -> None:
        """See every strategy, and whether it runs anything."""

        def construct(strategy: Any, *_: Any, **__: Any) -> None:
            self._strategies.append(weakref.ref(strategy))

        def run(strategy: Any, fn: Any, args: Any = (), kwargs: Any = None, options: Any = None) -> None:
            self._ran.add(strategy)
            if _are_shared([args, kwargs]):
                self._shared.add(strategy)

        interpose(kind, "__init__", construct)
        interpose(kind, "run", run)

    def ask(self, device_name: Any) -> None:
        """Take down which device the user's code asks `tf.device` for."""
        if isinstance(device_name, str) and not self._agent.over and not self._agent.busy and len(self._asked) < MOST:
            short = _short(device_name)
            if short and short not in self._asked:
                self._asked[short] = line_here(self._agent)

    def look(self) -> None:
        """Record where everything is, if that is new."""
        parameters = self._training.parameters()
        if not parameters:
            return
        with self._agent.quietly():
            found = self._found(parameters)
        if found != self._known:
            self._known = found
            self._agent.record("placed", **found)

    def _found(self, parameters: list[Any]) -> dict[str, Any]:
        import tensorflow as tf
        from tensorflow.python.distribute import values

        there = sorted(_short(device.name) for device in tf.config.list_logical_devices())
        on: dict[str, int] = {}
        for variable in parameters:
            for component in components(variable):
                on[_short(component.device)] = on.get(_short(component.device), 0) + 1
        alive = [strategy for known in self._strategies if (strategy := known()) is not None]
        strategies = [
            {
                "kind": _name(strategy),
                "replicas": strategy.num_replicas_in_sync,
                "devices": [_short(device) for device in strategy.extended.worker_devices],
                "ran": strategy in self._ran,
                "shared": strategy in self._shared,
            }
            for strategy in alive
            if _has_replicas(strategy)
        ]
        plain = [name_of(v) for v in parameters if not isinstance(v, values.DistributedVariable)]
        return {
            "on": on,
            "there": there,
            "asked": [{"device": d, "site": site} for d, site in self._asked.items() if d not in there],
            "strategies": strategies,
            "plain": plain[:MOST] if strategies else [],
            "aliased": _aliased(parameters)[:MOST],
        }


def _has_replicas(strategy: Any) -> bool:
    """Return whether a strategy is one that the program made to compute on devices of its choice."""
    return type(strategy).__name__ != "_DefaultDistributionStrategy" and hasattr(strategy.extended, "worker_devices")


def _name(strategy: Any) -> str:
    """Return the name by which the user knows a strategy."""
    import tensorflow as tf

    several = tf.distribute.MultiWorkerMirroredStrategy
    return "MultiWorkerMirroredStrategy" if type(strategy) is several else type(strategy).__name__


def _are_shared(arguments: Any) -> bool:
    """Return whether arguments are tensors of some length, and nothing that may hold another one for each replica."""
    import tensorflow as tf

    flat = tf.nest.flatten(arguments)
    tensors = [one for one in flat if isinstance(one, tf.Tensor)]
    others = [one for one in flat if not isinstance(one, (tf.Tensor, int, float, bool, str, type(None)))]
    return not others and any(tensor.shape.rank for tensor in tensors)


def _short(device: Any) -> str:
    """Return a device as `CPU:0`, without job and task; empty for a name that names none."""
    from tensorflow.python.framework import device as devices

    try:
        spec = devices.DeviceSpec.from_string(str(device))
    except ValueError:
        return ""
    return f"{spec.device_type.upper()}:{spec.device_index or 0}" if spec.device_type else ""


def _aliased(parameters: list[Any]) -> list[str]:
    """Return the names of variables that are among the parameters more than once."""
    seen: set[int] = set()
    twice = []
    for variable in parameters:
        if id(variable) in seen:
            twice.append(name_of(variable))
        seen.add(id(variable))
    return twice
