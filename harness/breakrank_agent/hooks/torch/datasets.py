"""Datasets of torch, told apart by what they hold: two ranks that have one dataset mean the same by an index."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Optional

#: The depth to which the objects that a dataset holds are looked into, and the most items of a list.
_DEPTH, _ITEMS = 4, 8
#: The bytes at each end of an array that are looked at.
_ENDS = 256
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def describe(dataset: Any, index_sampler: Any) -> dict[str, Any]:
    """Return digest and size of the innermost dataset, and how a loader's sampler of indices draws from it.

    There is no digest where a part of the dataset is of a kind that says nothing of itself.
    """
    from torch.utils.data.dataset import Subset

    sampler = getattr(index_sampler, "sampler", None)
    part = False
    while isinstance(dataset, Subset):
        dataset, part = dataset.dataset, True
    facts: dict[str, Any] = {}
    try:
        facts["total"] = len(dataset)
    except (TypeError, NotImplementedError):
        return facts
    known = _digest_of(dataset)
    if known:
        facts["dataset"] = known
    how = "part" if part else _how(sampler, facts["total"])
    if how:
        facts["draws"] = how
    if _pads(index_sampler, sampler) and (part or facts["total"] % _at_once(index_sampler)):
        facts["padded"] = True
    return facts


def _pads(index_sampler: Any, sampler: Any) -> bool:
    """Return whether a sampler may add samples so that all ranks have as many: no plain one of torch's does."""
    from torch.utils import data

    plain = (data.SequentialSampler, data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)
    return type(index_sampler) is not data.BatchSampler or type(sampler) not in plain


def _at_once(index_sampler: Any) -> int:
    """Return how many samples all ranks take at a step together."""
    import torch

    world = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    size = getattr(index_sampler, "batch_size", None)
    return world * size if isinstance(size, int) and size > 0 else world


def _how(sampler: Any, total: int) -> str:
    """Return how a sampler draws: with replacement, of a part of the dataset, or nothing for all of it."""
    from torch.utils.data import SubsetRandomSampler

    if getattr(sampler, "replacement", False):
        return "replacement"
    number = getattr(sampler, "num_samples", None)
    shared = hasattr(sampler, "num_replicas")
    if isinstance(sampler, SubsetRandomSampler) or (isinstance(number, int) and number < total and not shared):
        return "part"
    return ""


def _digest_of(dataset: Any) -> str:
    digest = hashlib.blake2b(digest_size=8)
    try:
        return digest.hexdigest() if _feed(digest, dataset, _DEPTH) else ""
    except Exception:
        # An object of the program's that cannot be looked at.
        return ""


def _feed(digest: Any, value: Any, depth: int) -> bool:
    """Feed a digest with what is known of a value; return False if that is nothing."""
    digest.update(type(value).__qualname__.encode())
    if isinstance(value, (*_PLAIN, os.PathLike)):
        digest.update(repr(value).encode())
        return True
    ends = _ends(value)
    if ends is not None:
        digest.update(ends)
        return True
    if depth == 0:
        return False
    if isinstance(value, (list, tuple)):
        digest.update(str(len(value)).encode())
        return all(_feed(digest, item, depth - 1) for item in [*value[:_ITEMS], *value[-_ITEMS:]])
    if isinstance(value, dict):
        digest.update(str(len(value)).encode())
        shown = list(value.items())[:_ITEMS]
        return all(_feed(digest, key, depth - 1) and _feed(digest, held, depth - 1) for key, held in shown)
    if depth < _DEPTH and callable(value):
        # A transform: what it makes of a sample does not change which sample it is.
        digest.update(getattr(value, "__qualname__", "").encode())
        return True
    held = getattr(value, "__dict__", None)
    if held is None:
        return False
    return all(_feed(digest, name, 1) and _feed(digest, held[name], depth - 1) for name in sorted(held))


def _ends(value: Any) -> Optional[bytes]:
    """Return shape, dtype and both ends of an array or a tensor that lies on the CPU; None for anything else."""
    import torch

    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_meta:
            return None
        flat = value.detach().reshape(-1)
        count = max(1, _ENDS // value.element_size())
        shown = torch.cat((flat[:count], flat[-count:])).cpu()
        return f"{tuple(value.shape)} {value.dtype} {shown.tolist()}".encode()
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        flat = value.reshape(-1)
        count = max(1, _ENDS // max(1, value.dtype.itemsize))
        return f"{value.shape} {value.dtype} {flat[:count].tolist()} {flat[-count:].tolist()}".encode()
    return None
