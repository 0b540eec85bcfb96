"""States that modules of torch take in: how much of one fitted, and whether it was a copy at all."""

from __future__ import annotations

from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.agent.parameter_digest import NAME_LIMIT

WAITS_FOR = "torch"


def install(agent: Agent) -> None:
    """See each outermost call of `Module.load_state_dict`."""
    import torch

    loads = _Loads(agent)
    interpose(torch.nn.Module, "load_state_dict", loads.begin, loads.end, loads.fail)
    mapped = agent.services.mapped
    if mapped is not None and hasattr(torch.UntypedStorage, "from_file"):
        # By `torch.load` of a file that is to be mapped. The kernel's own copies of pages are made when they are read.
        meet = mapped.meet
        interpose(torch.UntypedStorage, "from_file", lambda file, *_, **__: agent.guard(meet, str(file)))


class _Loads:
    """The loads of states that are under way in the main thread."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._depth = 0

    def begin(self, module: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return what is known of a load before it is made; nothing of one inside of another."""
        self._depth += 1
        state = args[0] if args else kwargs.get("state_dict")
        if self._depth > 1 or self._agent.busy or not hasattr(state, "keys"):
            return {}
        site = self._agent.sites.here().line
        with self._agent.quietly():
            return self._agent.guard(_look, module, state, site) or {}

    def end(self, known: dict[str, Any], made: Any) -> None:
        """Record a load by what torch says of its keys."""
        self._depth -= 1
        unread, lacking = getattr(made, "unexpected_keys", None), getattr(made, "missing_keys", None)
        if not known or not isinstance(unread, list) or not isinstance(lacking, list):
            return
        fitted = max(0, known["keys"] - len(unread))
        self._agent.record("loaded", **known, fitted=fitted, unread=_first(unread), lacking=_first(lacking))

    def fail(self, _: Any, error: BaseException) -> None:
        """Leave a load that raised."""
        self._depth -= 1


def _look(module: Any, state: Any, site: str) -> dict[str, Any]:
    return {"keys": len(state), "own": _is_own(module, state), "site": site}


def _first(keys: list[Any]) -> str:
    return str(keys[0])[:NAME_LIMIT] if keys else ""


def _is_own(module: Any, state: Any) -> bool:
    """Return whether each tensor of a state that has a key of the module's lies in that module's own memory."""
    here = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    pairs = [(held, state[name]) for name, held in here.items() if name in state]
    return bool(pairs) and all(map(_is_one, *zip(*pairs)))


def _is_one(one: Any, other: Any) -> bool:
    """Return whether two tensors with elements begin at one address."""
    try:
        return bool(one.numel() and one.data_ptr() and one.data_ptr() == other.data_ptr())
    except (AttributeError, RuntimeError):
        # Tensors of a class of its own may have no memory that they name.
        return False
