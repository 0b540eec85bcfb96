"""Controlled schedules over ranks that share memory: a rank parks at every operator that touches a shared storage.

A `TorchDispatchMode` in the main thread sees each operator before it runs. What it reads and writes follows from the
operator's schema. A storage counts as shared if it lies in a shared mapping; its name is (device, inode, offset), which
is the same in every rank.
"""

from __future__ import annotations

from typing import Any, Optional

from breakrank_agent.probe import Agent

WAITS_FOR = "torch"


def install(agent: Agent) -> None:
    """Enter the mode for as long as the rank lives."""
    if agent.controlled and agent.channel is not None:
        _make_mode(agent).__enter__()


def _make_mode(agent: Agent) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    touches = _Touches()

    class OneRankAtATime(TorchDispatchMode):
        """Asks for a turn before each operator that touches shared storage."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if not agent.busy and agent.here:
                for key, mode in touches.of(func, args, kwargs or {}):
                    agent.take_turn(func.__name__, mode, key)
            return func(*args, **(kwargs or {}))

    return OneRankAtATime()


class _Touches:
    """Which shared storages a call reads and writes."""

    def __init__(self) -> None:
        self._modes: dict[Any, Optional[list[str]]] = {}

    def of(self, func: Any, args: Any, kwargs: Any) -> list[tuple[str, str]]:
        """Return (name of the storage, mode) for each shared storage that the call touches, writes last."""
        if func not in self._modes:
            self._modes[func] = self._plan(func)
        modes = self._modes[func]
        if modes is None:
            return []
        found: dict[str, str] = {}
        names = [argument.name for argument in func._schema.arguments]
        for mode, value in list(zip(modes, args)) + [(modes[names.index(k)], v) for k, v in kwargs.items()]:
            for tensor in _tensors(value):
                key = _shared_key(tensor)
                if key is not None:
                    found[key] = mode if found.get(key, mode) == mode else "rw"
        return sorted(found.items(), key=lambda item: item[1])

    @staticmethod
    def _plan(func: Any) -> Optional[list[str]]:
        """Return the mode of each argument, or None if the operator makes views and touches no data."""
        if func.is_view:
            return None
        modes = []
        for argument in func._schema.arguments:
            written = argument.alias_info is not None and argument.alias_info.is_write
            # These write without reading what was there; every other operator in place reads it first.
            blind = func._schema.name.split("::")[1] in ("copy_", "fill_", "zero_", "set_") or argument.is_out
            modes.append(("w" if blind else "rw") if written else "r")
        return modes


def _tensors(value: Any) -> list[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in _tensors(item)]
    return []


def _shared_key(tensor: Any) -> Optional[str]:
    storage = tensor.untyped_storage()
    if tensor.device.type != "cpu" or not storage.is_shared():
        return None
    return _mapping(storage.data_ptr())


def _mapping(address: int) -> Optional[str]:
    """Return `device:inode:offset` of the shared mapping that holds `address`, from /proc/self/maps."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        for line in file:
            span, rights, offset, device, inode = line.split(None, 5)[:5]
            start, end = (int(part, 16) for part in span.split("-"))
            if start <= address < end:
                return f"{device}:{inode}:{int(offset, 16) + address - start}" if rights[3] == "s" else None
    return None
