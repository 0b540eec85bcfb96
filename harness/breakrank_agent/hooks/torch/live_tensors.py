"""Meters of the census for torch: the bytes of tensors, the nodes of autograd's graphs, and process groups.

A `TorchDispatchMode` in the main thread sees each operator's outputs. A storage is held weakly, so that one that only
C++ refers to (saved for a backward pass) is counted, and an address that is used again is not taken for the old one.
The mode costs some 10 µs an operator (measured on busy cores); what other threads compute is not seen.
"""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.call_sites import NOWHERE, Site
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.agent.services import CensusTaker
from breakrank_agent.hooks.python.census import Line, add_up, flat
from breakrank_agent.hooks.torch.dispatch_modes import enter_mode, uncompiled

WAITS_FOR = "torch"
AFTER = ("python.census",)

#: The most nodes of graphs that one census looks at.
NODES = 10_000
#: The least number of storages at which the dead ones among them are looked for.
MANY = 4096


def install(agent: Agent) -> None:
    """Add torch's meters to the census, if there is one."""
    census = agent.services.census
    if census is None:
        return
    import torch

    storages = _Storages(agent, census)
    census.meters += [storages.count, _Graphs(census, storages).count]
    if torch.distributed.is_available():
        census.meters.append(_Groups(census).count)
    enter_mode(agent, _make_mode(agent, storages), "tensors that are alive are")


def _make_mode(agent: Agent, storages: _Storages) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    def run(func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs) if kwargs else func(*args)
        if not agent.busy and agent.here:
            storages.see(func, result)
        return result

    run = uncompiled(run)

    class Census(TorchDispatchMode):
        """Shows each operator's outputs to the census."""

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # As for the mode that watches accesses: torch's own wrapper takes longer than the census.
            return False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return run(func, args, kwargs)

    return Census()


class _Storage:
    """A storage, held weakly: where it was made, and where it was last written to by something that may be trained."""

    __slots__ = ("made", "weak", "written")

    def __init__(self, weak: Any, site: Site) -> None:
        self.weak = weak
        self.made = self.written = site


class _Storages:
    """All storages that are alive, by address."""

    def __init__(self, agent: Agent, census: CensusTaker) -> None:
        import torch
        from torch.multiprocessing.reductions import StorageWeakRef

        self._census = census
        self._known: dict[int, _Storage] = {}
        #: Known storages are looked through for dead ones when there are this many: censuses may be far apart.
        self._limit = MANY
        self._weak = StorageWeakRef
        self._tensor = torch.Tensor
        self._revive = torch.UntypedStorage._new_with_weak_ptr
        self._trains = torch.is_grad_enabled
        census.passes.append(lambda kind: issubclass(kind, (_Storage, StorageWeakRef, ref, self._tensor)))
        # Torch keeps Python's view of a storage, once somebody asked for it, for as long as the storage lives.
        census.passes.append(lambda kind: issubclass(kind, torch.UntypedStorage))

    def see(self, func: Any, result: Any) -> None:
        """Take note of an operator's outputs."""
        site = None
        for tensor in (result,) if isinstance(result, self._tensor) else flat(result, self._tensor):
            try:
                storage = tensor.untyped_storage()
            except (NotImplementedError, RuntimeError):
                # A sparse tensor has no storage of its own; those of its parts are seen when they are made.
                continue
            known = self._known.get(storage._cdata)
            if known is None:
                site = site or self._census.sites.here()
                self._known[storage._cdata] = _Storage(self._weak(storage), site)
                if len(self._known) > self._limit:
                    self._forget_dead()
            elif self._trains() and _writes(func):
                site = site or self._census.sites.here()
                known.written = site

    def _forget_dead(self) -> None:
        self._known = {at: known for at, known in self._known.items() if not known.weak.expired()}
        self._limit = max(MANY, 2 * len(self._known))

    def written(self, tensor: Any) -> Site:
        """Return where a tensor got its value."""
        known = self._known.get(tensor.untyped_storage()._cdata)
        return known.written if known is not None else NOWHERE

    def count(self) -> list[Line]:
        """Return the live storages by where they were made."""
        found, dead = [], []
        for address, known in self._known.items():
            storage = self._revive(known.weak.cdata)
            if storage is None:
                dead.append(address)
            else:
                found.append((known.made, 1, storage.nbytes()))
        for address in dead:
            del self._known[address]
        self._census.totals.update(bytes=sum(size for _, _, size in found), tensors=len(found))
        return add_up("tensor", found)


def _writes(func: Any) -> bool:
    schema = getattr(func, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


class _Graphs:
    """The nodes of the graphs that tensors of Python still hold, by where such a tensor got its value."""

    def __init__(self, census: CensusTaker, storages: _Storages) -> None:
        import torch

        self._tensor = torch.Tensor
        self._storages = storages
        #: Tensors that were there before the first census, which the collector does not list any more.
        self._frozen: list[ref[Any]] = []
        census.before_freeze.append(self._remember)
        census.passes.append(lambda kind: issubclass(kind, torch.autograd.graph.Node))

    def _remember(self) -> None:
        self._frozen = [ref(t) for t in self._listed() if _node_of(t) is not None or not t.requires_grad]

    def _listed(self) -> list[Any]:
        return [thing for thing in gc.get_objects() if issubclass(type(thing), self._tensor)]

    def count(self) -> list[Line]:
        """Return how many nodes each site's tensors hold; a node that several hold counts for the first."""
        seen: set[Any] = set()
        found = []
        frozen = [tensor for tensor in (weak() for weak in self._frozen) if tensor is not None]
        for tensor in [*frozen, *self._listed()]:
            node = _node_of(tensor)
            if node is not None and len(seen) < NODES:
                before = len(seen)
                _walk(node, seen)
                found.append((self._storages.written(tensor), len(seen) - before, 0))
        return add_up("graph", found)


def _node_of(tensor: Any) -> Any:
    """Return the node of autograd's graph that made a tensor, or None.

    Of a view whose base was changed in place, such as FSDP's of a flat parameter, torch refuses to tell.
    """
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def _walk(node: Any, seen: set[Any]) -> None:
    """Add to `seen` all nodes that can be reached."""
    waiting = [node]
    while waiting and len(seen) < NODES:
        here = waiting.pop()
        if here not in seen:
            seen.add(here)
            waiting += [following for following, _ in here.next_functions if following is not None]


class _Groups:
    """Process groups that were not destroyed, by the line that made them."""

    def __init__(self, census: CensusTaker) -> None:
        import torch.distributed
        from torch.distributed import distributed_c10d

        self._world = distributed_c10d._world
        self._made: dict[str, Site] = {}
        self._census = census
        for name in ("init_process_group", "new_group"):
            setattr(torch.distributed, name, interpose(distributed_c10d, name, after=self._note))

    def _note(self, *_: Any) -> None:
        site = self._census.sites.here()
        for group in self._world.pg_names.values():
            self._made.setdefault(group, site)

    def count(self) -> list[Line]:
        """Return the groups that there are."""
        self._made = {group: self._made.get(group, NOWHERE) for group in self._world.pg_names.values()}
        self._census.totals["groups"] = len(self._made)
        return add_up("group", ((site, 1, 0) for site in self._made.values()))
