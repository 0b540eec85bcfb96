"""Graphs that a collective cuts: what it reads needs a gradient, what it writes has none, and goes into the loss.

A collective as such is no function of autograd: gradients end at it, without a word. The bytes tell that its
result goes into the loss: tensors that the graph has saved for the backward pass hold them, and need no gradient. If it
is only added, nothing is saved: then parameters that an optimizer has come into the collective, and not into the loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from breakrank_agent.agent.agent import Agent
from breakrank_agent.hooks.torch.collective_contents import READS_WRITES
from breakrank_agent.hooks.torch.tensor_memory import has_memory, raw_bytes
from breakrank_agent.hooks.torch.training import Training, flatten

WAITS_FOR = "torch"

#: The collectives that write to other tensors than they read; first those that gather.
_GATHERS = ("allgather_", "_allgather_base_", "gather_")
_APART = frozenset(
    (*_GATHERS, "scatter_", "reduce_scatter_", "_reduce_scatter_base_", "alltoall_", "alltoall_base_"),
)
#: The steps that are looked at, the bytes by which a tensor is known again, and the most of the graph that is searched.
_STEPS, _BYTES, _NODES, _LARGEST = 2, 32, 2000, 1 << 24


class _Cut(NamedTuple):
    """A call whose result has no gradient although what it read needs one."""

    op: str
    site: str
    inputs: list[Any]
    outputs: list[Any]


def install(agent: Agent) -> None:
    """Keep the results of such calls until the next backward pass, where contents are asked for."""
    if "contents" in agent.plan.evidence:
        cuts = CutGraphs(agent)
        agent.services.cuts = cuts
        agent.on.backward.append(cuts.look)


class CutGraphs:
    """The calls since the last backward pass."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._cuts: list[_Cut] = []

    def meet(self, name: str, names: list[str], args: Any) -> None:
        """Keep the results of a call, if they can cut a graph."""
        import torch

        if name not in _APART or self._agent.clock.step > _STEPS or not torch.is_grad_enabled():
            return
        said = dict(zip(names, args))
        inputs, outputs = (flatten(said.get(argument), []) for argument in READS_WRITES[name])
        if any(one.requires_grad for one in inputs) and not any(one.requires_grad for one in outputs):
            self._cuts.append(_Cut(name, self._agent.sites.here().line, inputs, outputs))

    def look(self, roots: Any) -> None:
        """Record the calls whose results went into what a backward pass begins from."""
        cuts, self._cuts = self._cuts, []
        if not cuts:
            return
        reached = _reached(roots if isinstance(roots, (list, tuple)) else [roots])
        with self._agent.quietly():
            packs = self._agent.services.packs
            held = [one for node in reached for one in _saved(node)] if not packs else []
            for cut in cuts:
                marks = [mark for output in cut.outputs if (mark := _mark(output))]
                known = bool(marks) and all(any(mark in one for one in held) for mark in marks)
                if known or self._left_behind(cut, reached):
                    self._agent.record("cut", op=cut.op, site=cut.site)

    def _left_behind(self, cut: _Cut, reached: set[Any]) -> bool:
        """Return whether parameters that an optimizer has go into a call, and not into the loss."""
        training = self._agent.model.handles
        trained = set(map(id, training.parameters())) if isinstance(training, Training) else set()
        behind = _reached(cut.inputs) - reached
        return any(id(getattr(node, "variable", None)) in trained for node in behind)


def _reached(roots: Sequence[Any]) -> set[Any]:
    """Return the nodes of the graphs of some tensors."""
    nodes = [root.grad_fn for root in roots if getattr(root, "grad_fn", None) is not None]
    seen = set(nodes)
    while nodes and len(seen) < _NODES:
        for child, _ in nodes.pop().next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                nodes.append(child)
    return seen


def _mark(tensor: Any) -> bytes:
    """Return the first bytes of a tensor; empty where they say too little."""
    if not tensor.is_cpu or not has_memory(tensor) or not tensor.numel():
        return b""
    found = bytes(raw_bytes(tensor.detach().reshape(-1)[: _BYTES // tensor.element_size()].contiguous()))
    return found if len(found) == _BYTES and len(set(found)) > 4 else b""


def _saved(node: Any) -> Iterator[bytes]:
    """Yield the bytes of the tensors without a gradient that a node of a graph has saved."""
    for name in dir(node):
        if name.startswith("_saved_"):
            yield from _contents(_get(node, name))


def _get(node: Any, name: str) -> Any:
    try:
        return getattr(node, name)
    except RuntimeError:
        # It was freed, or changed since.
        return None


def _contents(value: Any) -> Iterator[bytes]:
    import torch

    for one in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(one, torch.Tensor) and not one.requires_grad and one.is_cpu and one.layout is torch.strided:
            storage = one.untyped_storage()
            if 0 < storage.nbytes() <= _LARGEST:
                yield bytes(storage)
