"""The memory of torch's tensors: the plain ones that hold what a rank has of a tensor, their bytes and numbers."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

from breakrank_agent.protocol.bits import Words

#: The tensors that one of a sparse layout consists of.
_PARTS = {
    "torch.sparse_coo": ("_indices", "_values"),
    **dict.fromkeys(("torch.sparse_csr", "torch.sparse_bsr"), ("crow_indices", "col_indices", "values")),
    **dict.fromkeys(("torch.sparse_csc", "torch.sparse_bsc"), ("ccol_indices", "row_indices", "values")),
}

_kind_of = attrgetter("device", "dtype")


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """Work with tensors so that no mode, of the program or ours, sees it, and no gradient is recorded."""
    import torch

    with torch.no_grad(), torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        yield


def numbers_of(tensor: Any) -> Any:
    """Return a plain tensor's numbers as a vector in 64-bit floating point, a complex one's parts one by one."""
    import torch

    here = tensor.detach().cpu()
    return (torch.view_as_real(here.resolve_conj()) if here.is_complex() else here).double().reshape(-1)


def held_of(tensor: Any) -> list[Any]:
    """Return the plain tensors that hold what this rank has of a tensor; none while it has no memory.

    A tensor of a class of its own, such as the DTensor of sharded training, has no memory itself, and says which ones
    it wraps (`__tensor_flatten__`, which torch's compiler asks for, too): here that is the rank's shard. A sparse one
    has its indices and values.
    """
    if not hasattr(tensor, "layout"):
        # A description of how a tensor is divided, such as a DeviceMesh, is named beside the tensors that it wraps.
        return []
    take_apart = getattr(tensor, "__tensor_flatten__", None)
    if take_apart is not None:
        return [held for name in take_apart()[0] for held in held_of(getattr(tensor, name))]
    layout = str(tensor.layout)
    if layout in _PARTS:
        return [held for name in _PARTS[layout] for held in held_of(getattr(tensor, name)())]
    return [] if tensor.is_meta or not has_memory(tensor) else [tensor]


def floating_of(tensors: list[Any], before: list[int]) -> list[Any]:
    """Return the plain tensors in floating point that hold what this rank has of some.

    Those that were so themselves `before`, by identity, are so as long as they have memory.
    """
    import torch

    if [*map(id, tensors)] == before and all(map(torch.Tensor.data_ptr, tensors)):
        return tensors
    return [held for tensor in tensors for held in held_of(tensor) if held.is_floating_point()]


def are_finite(held: list[Any]) -> bool:
    """Return whether plain tensors in floating point are finite: their sum is, or none of them is not."""
    import torch

    kinds = {*map(_kind_of, held)}
    parts = [held if len(kinds) == 1 else [one for one in held if _kind_of(one) == kind] for kind in kinds]
    if all(bool(torch.stack([*map(torch.Tensor.sum, part)]).double().sum().isfinite()) for part in parts):
        return True
    # Sums of finite numbers overflow in a narrow dtype.
    return all(bool(tensor.isfinite().all()) for tensor in held)


def feed(digest: Any, tensor: Any) -> None:
    """Feed a digest of hashlib with the bytes that this rank has of a tensor."""
    for held in held_of(tensor):
        digest.update(raw_bytes(held.detach().cpu().contiguous()))


def digests_of(value: Any) -> list[str]:
    """Return a digest of each tensor in nested dicts, lists and tuples, in their order."""
    import torch

    if isinstance(value, torch.Tensor):
        digest = hashlib.blake2b(digest_size=8)
        with torch.no_grad():
            feed(digest, value)
        return [digest.hexdigest()]
    held = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [digest for one in held for digest in digests_of(one)]


def has_memory(tensor: Any) -> bool:
    """Return whether a plain tensor has its memory: sharded parameters give it back while the tensor lives on."""
    import torch

    return tensor.layout is not torch.strided or extent(tensor)[1] <= int(tensor.untyped_storage().nbytes())


def extent(tensor: Any) -> tuple[int, int]:
    """Return the bytes in its storage from which and up to which a tensor reaches."""
    item, count = tensor.element_size(), tensor.numel()
    if count and not tensor.is_contiguous():
        count = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    start = tensor.storage_offset() * item
    return start, start + count * item


def raw_bytes(tensor: Any) -> memoryview:
    """Return a writable view of the bytes of a contiguous CPU tensor, which lives as long as the view."""
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(bytearray())
    memory = (ctypes.c_ubyte * size).from_address(tensor.data_ptr())
    # It may be a copy that nobody else has: of what lies on a device, or not in one piece.
    memory.tensor = tensor
    return memoryview(memory).cast("B")


def words_of(name: str, tensors: Iterable[Any]) -> list[Words]:
    """Return the memory of those tensors that lie on a CPU in one piece. Raises `LookupError` when there is none."""
    import torch

    found = [
        Words(f"{name} {number}", raw_bytes(tensor), str(tensor.dtype)[6:], tensor.shape[-1] if tensor.dim() else 1)
        for number, tensor in enumerate(tensors)
        if tensor.device.type == "cpu" and tensor.layout is torch.strided and tensor.is_contiguous()
    ]
    if not found:
        raise LookupError(f"no {name} are known at this point")
    return found
