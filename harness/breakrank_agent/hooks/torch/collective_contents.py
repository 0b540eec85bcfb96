"""Contents of torch's collectives, read and written, in sums and digests: only for an oracle that judges them.

Of a large tensor every so-manieth element is looked at, from the first on. The number depends on the size alone, so
that it is the same elements on all ranks, and of a piece as of the whole that it comes from: what must hold for the
tensors must hold for these.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.hooks.torch.collective_calls import Facts
from breakrank_agent.hooks.torch.loop_variables import LoopVariables
from breakrank_agent.hooks.torch.tensor_memory import extent, has_memory, raw_bytes, unseen
from breakrank_agent.hooks.torch.training import flatten
from breakrank_agent.protocol.log import members

WAITS_FOR = "torch"

#: The arguments of each operator that hold what it reads and what it writes.
READS_WRITES = {
    "allreduce_": ("tensors", "tensors"),
    "allreduce_coalesced_": ("tensors", "tensors"),
    "broadcast_": ("tensors", "tensors"),
    "allgather_": ("input_tensors", "output_tensors"),
    "_allgather_base_": ("input_tensor", "output_tensor"),
    "allgather_coalesced_": ("input_list", "output_lists"),
    "allgather_into_tensor_coalesced_": ("inputs", "outputs"),
    "reduce_scatter_": ("input_tensors", "output_tensors"),
    "_reduce_scatter_base_": ("input_tensor", "output_tensor"),
    "reduce_scatter_tensor_coalesced_": ("inputs", "outputs"),
    "reduce_": ("tensors", "tensors"),
    "gather_": ("input_tensors", "output_tensors"),
    "scatter_": ("input_tensors", "output_tensors"),
    "alltoall_": ("input_tensors", "output_tensors"),
    "alltoall_base_": ("input", "output"),
    "send": ("tensors", ""),
    "recv_": ("", "tensors"),
    "recv_any_source_": ("", "tensors"),
}
#: Operators of which each tensor read or written holds one piece per rank.
PIECES_READ = ("_reduce_scatter_base_", "reduce_scatter_tensor_coalesced_", "alltoall_base_")
PIECES_WRITTEN = ("_allgather_base_", "allgather_into_tensor_coalesced_", "alltoall_base_")
#: Operators that only the root reads for, or writes for.
ROOT_READS = ("broadcast_", "scatter_")
ROOT_WRITES = ("reduce_", "gather_")

#: The bytes that are compared on each side of a tensor that is written.
BESIDE = 4096
#: The most elements of a tensor that are looked at: with this many, a call takes about 0.2 ms.
MOST = 1 << 14


def install(agent: Agent) -> None:
    """Have collectives watched, if their contents are asked for."""
    if "contents" in agent.plan.evidence:
        agent.services.contents = Contents(agent)


class Contents:
    """Watches what collectives read and write."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._noted = False
        self._loops = LoopVariables(agent.sites)

    def watch(self, name: str, names: list[str], args: Any, facts: Facts) -> Optional[Watched]:
        """Read what a call is about to read; None for a call that has no tensors, such as a barrier."""
        if name not in READS_WRITES:
            return None
        said = dict(zip(names, args))
        reads, writes = READS_WRITES[name]
        read = flatten(said.get(reads), []) if facts.here or name not in ROOT_READS else []
        handed = flatten(said.get(writes), [])
        written = handed if facts.here or name not in ROOT_WRITES else []
        splits = (said.get("input_split_sizes"), said.get("output_split_sizes"))
        pieces_read = facts.size if name in PIECES_READ else 0
        pieces_written = facts.size if name in PIECES_WRITTEN else 0
        if not self._noted and any(_apart(t) > 1 for t in (*read, *written)):
            self._noted = True
            text = f"of a collective's tensor with more than {MOST:,} elements, so many of them were compared, or fewer"
            self._agent.record("note", text=text, limits=True)
        watched = Watched(read, written, handed, pieces_read, pieces_written, splits, facts)
        if self._agent.services.cuts is not None:
            self._agent.guard(self._agent.services.cuts.meet, name, names, args)
        if self._agent.services.squares is not None:
            self._agent.guard(self._agent.services.squares.meet, name, read)
        if facts.pair is None:
            watched.loop = self._agent.guard(self._loops.here) or ""
        # A backend that puts its results together in memory of its own copies them over, which counts as a change.
        watched.versions = [_version(t) for t in written] if reads == writes else []
        return watched


class Watched:
    """One call: what it read, as it was, and what it is to leave alone."""

    def __init__(
        self,
        read: list[Any],
        written: list[Any],
        handed: list[Any],
        pieces_read: int,
        pieces_written: int,
        splits: Any,
        facts: Facts,
    ) -> None:
        self._written = written
        #: The number of changes of each written tensor by then; empty where a collective itself counts as a change.
        self.versions: list[int] = []
        self._pieces, self._splits = pieces_written, splits[1]
        #: The variables of the loops from which it is called, and their values.
        self.loop = ""
        with unseen():
            self.read = [summary(t, pieces_read, splits[0]) for t in read]
            # A reduction to one rank leaves its own workings in what the others have handed it.
            own = {t.untyped_storage().data_ptr() for t in handed}
            kept = [t for t in read if t.untyped_storage().data_ptr() not in own]
            self._kept = [(t, _digest(t)) for t in kept]
            # While others may write as well, what lies beside a tensor is theirs.
            beside = [] if facts.asked else [t for t in written if _alone(t, [*read, *written])]
            self._beside = [(t, _beside(t)) for t in beside]

    def before(self) -> str:
        """Return what was read, and the loops, as JSON."""
        loop = {"loop": self.loop} if self.loop else {}
        return members({"in": self.read, **loop})

    def after(self, waited: bool) -> str:
        """Return what was written and whether all else was kept, as JSON; nothing if a tensor's memory is gone.

        Without a wait, what the call has read is the program's again: only what it has written is told, unless the
        program has changed that meanwhile, as batch normalisation its counter, which DDP hands over in place.
        """
        with unseen():
            if not all(has_memory(t) for t in self._written):
                return ""
            if not waited and self.versions and [_version(t) for t in self._written] != self.versions:
                return ""
            out = [summary(t, self._pieces, self._splits) for t in self._written]
            if not waited:
                return members({"out": out})
            kept = all(_digest(t) == was for t, was in self._kept if has_memory(t))
            kept = kept and all(_beside(t) == was for t, was in self._beside)
            return members({"out": out, "kept": kept})


def summary(tensor: Any, pieces: int = 0, splits: Any = None) -> dict[str, Any]:
    """Return digest, count, sum, sum of absolute values, maximum and minimum of a tensor, and of its pieces."""
    import torch

    flat = _sample(tensor)
    facts: dict[str, Any] = {"digest": _hash(flat), "n": flat.numel()}
    if flat.numel() < tensor.numel():
        facts["of"] = tensor.numel()
    if flat.is_complex():
        flat = torch.view_as_real(flat)
    if flat.numel() and flat.layout is torch.strided:
        whole = not flat.is_floating_point()
        flat = flat.to(torch.int64 if whole else torch.float64)
        values = {"sum": flat.sum(), "abs": flat.abs().sum(), "max": flat.max(), "min": flat.min()}
        facts.update({name: _plain(value.item()) for name, value in values.items()})
    if pieces:
        facts["parts"] = [summary(piece) for piece in _pieces(tensor, pieces, splits)]
    return facts


def _plain(value: Any) -> Any:
    """Return a number as JSON has it: what is not finite is a text."""
    return value if math.isfinite(value) else str(value)


def _pieces(tensor: Any, count: int, splits: Any) -> list[Any]:
    """Return one piece per rank: by the sizes that were given, or equal ones of the flat tensor."""
    if splits:
        return list(tensor.detach().split(list(splits)))
    flat = tensor.detach().reshape(-1)
    size = flat.numel() // count
    return [flat[i * size : (i + 1) * size] for i in range(count)]


def _apart(tensor: Any) -> int:
    """Return how far the elements lie apart that are looked at; 1 if all are.

    It is odd: a row of a matrix has mostly an even number of elements, and other columns are looked at in each.
    """
    import torch

    large = tensor.layout is torch.strided and tensor.numel() > MOST
    return -(-tensor.numel() // MOST) | 1 if large else 1


def _sample(tensor: Any) -> Any:
    """Return the elements of a tensor that are looked at; all of them, in its own form, where it is not large."""
    apart = _apart(tensor)
    return tensor.detach() if apart == 1 else tensor.detach().reshape(-1)[::apart].contiguous()


def _digest(tensor: Any) -> str:
    return _hash(_sample(tensor))


def _hash(plain: Any) -> str:
    import torch

    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    return hashlib.blake2b(raw_bytes(plain.resolve_conj().cpu().contiguous()), digest_size=8).hexdigest()


def _version(tensor: Any) -> int:
    """Return how often operators have changed a tensor in place, in all of its views; 0 where nobody counts."""
    return 0 if tensor.is_inference() else int(tensor._version)


def _alone(tensor: Any, tensors: list[Any]) -> bool:
    """Return whether no other tensor of the call, and no other process, has the memory beside this one."""
    import torch

    if tensor.layout is not torch.strided or tensor.untyped_storage().is_shared():
        return False
    here = tensor.untyped_storage().data_ptr()
    return all(t is tensor or t.untyped_storage().data_ptr() != here for t in tensors)


def _beside(tensor: Any) -> str:
    """Return a digest of the bytes on both sides of a tensor in its storage; empty if its memory is gone."""
    import torch

    if not has_memory(tensor):
        return ""
    storage = tensor.untyped_storage()
    start, stop = extent(tensor)
    digest = hashlib.blake2b(digest_size=8)
    for first, last in ((max(0, start - BESIDE), start), (stop, min(storage.nbytes(), stop + BESIDE))):
        piece = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, first, (last - first,))
        digest.update(raw_bytes(piece.cpu().contiguous()))
    return digest.hexdigest()
