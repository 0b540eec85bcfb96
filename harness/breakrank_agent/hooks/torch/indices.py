"""Find the bytes of a tensor that an operator by index touches: those of the elements that its index names alone."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

from breakrank_agent.agent.access_log import Span

#: The most pieces of a tensor that are told apart.
MOST = 1024


class Pick(NamedTuple):
    """The use that an operator by index makes of its first argument: the mode, and the pieces that it touches.

    `starts` returns where the pieces begin, in elements from the tensor's first one, and how many elements each has.
    """

    mode: str
    starts: Callable[[Any, Any], tuple[Any, int]]


def pick_of(name: str, arguments: list[str]) -> Optional[Pick]:
    """Return what an operator by index picks, by its name without overload and the names of its arguments."""
    if name not in _PICKS:
        return None
    mode, names, starts = _PICKS[name]
    places = [arguments.index(argument) for argument in names if argument in arguments]
    if len(places) < len(names):
        return None

    def asked(tensor: Any, args: Any) -> tuple[Any, int]:
        return starts(tensor, *(args[place] for place in places))

    return Pick("rw" if "reduce" in arguments else mode, asked)


def adds(name: str, args: Any, kwargs: Any) -> bool:
    """Return whether an operator that puts values at an index adds them to what is there."""
    return name in _PUTS and bool(kwargs.get("accumulate", len(args) > 3 and args[3]))


def pieces(tensor: Any, base: int, pick: Pick, args: Any) -> Optional[tuple[tuple[int, int], ...]]:
    """Return the bytes that are picked, as ranges in their order; None where that cannot be told.

    `base` is where the tensor's storage begins.
    """
    import torch

    try:
        starts, size = pick.starts(tensor, args)
        starts = torch.unique(starts)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        # The operator will say what is wrong with its index.
        return None
    if not starts.numel():
        return ()
    item = tensor.element_size()
    starts = starts * item + base + tensor.storage_offset() * item
    apart = starts[1:] - starts[:-1] > size * item
    edge = apart.new_ones(1)
    first, last = starts[torch.cat((edge, apart))], starts[torch.cat((apart, edge))] + size * item
    return tuple(zip(first.tolist(), last.tolist()))


def span_of(found: tuple[tuple[int, int], ...]) -> Span:
    """Return the span of some pieces; too many are not told apart."""
    lo, hi = found[0][0], found[-1][1]
    return Span(lo, hi, pieces=found) if 1 < len(found) <= MOST else Span(lo, hi)


def _with_rest(tensor: Any, starts: Any, picked: set[int]) -> tuple[Any, int]:
    """Add the dimensions that no index names: those that lie side by side are one piece."""
    import torch

    rest = [d for d in range(tensor.dim()) if d not in picked]
    size = 1
    while rest and tensor.stride(rest[-1]) == size:
        size *= tensor.shape[rest.pop()]
    for d in rest:
        starts = (starts[:, None] + torch.arange(tensor.shape[d]) * tensor.stride(d)).flatten()
    return starts, size


def _at_indices(tensor: Any, indices: Any) -> tuple[Any, int]:
    """Find `tensor[indices]`: an index for each dimension, None for all of it, a mask for as many as it has itself."""
    import torch

    named: list[tuple[int, Any]] = []
    dim = 0
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            named += [(dim + i, part) for i, part in enumerate(index.nonzero(as_tuple=True))]
            dim += index.dim()
        else:
            named += [] if index is None else [(dim, index)]
            dim += 1
    offsets = [(index % tensor.shape[d]) * tensor.stride(d) for d, index in named]
    starts = sum(torch.broadcast_tensors(*offsets)).flatten()
    return _with_rest(tensor, starts, {d for d, _ in named})


def _along(tensor: Any, dim: int, index: Any) -> tuple[Any, int]:
    """Find whole slices of one dimension."""
    dim %= tensor.dim()
    return _with_rest(tensor, (index.flatten() % tensor.shape[dim]) * tensor.stride(dim), {dim})


def _rows(tensor: Any, index: Any) -> tuple[Any, int]:
    return _along(tensor, 0, index)


def _pointwise(tensor: Any, dim: int, index: Any) -> tuple[Any, int]:
    """Find one element for each of the index, which replaces its place in one dimension."""
    import torch

    dim %= tensor.dim()
    starts = (index % tensor.shape[dim]) * tensor.stride(dim)
    for d in range(tensor.dim()):
        if d != dim:
            places = torch.arange(index.shape[d]) * tensor.stride(d)
            starts = starts + places.view([-1 if d == e else 1 for e in range(tensor.dim())])
    return starts.flatten(), 1


def _counted(tensor: Any, index: Any) -> tuple[Any, int]:
    """Find elements by their number, as if the tensor were a vector."""
    left = index.flatten() % tensor.numel()
    starts = left * 0
    for size, stride in reversed(list(zip(tensor.shape, tensor.stride()))):
        starts = starts + (left % size) * stride
        left = left // size
    return starts, 1


def _masked(tensor: Any, mask: Any) -> tuple[Any, int]:
    return _at_indices(tensor, [mask.expand(tensor.shape)])


_ALONG, _ONE = ("dim", "index"), ("index",)
_PUTS = ("index_put_", "_index_put_impl_", "put_")
#: By operator: how it touches what it picks, which arguments say what, and how they do.
_PICKS: dict[str, tuple[str, tuple[str, ...], Callable[..., tuple[Any, int]]]] = {
    "index": ("r", ("indices",), _at_indices),
    "index_put_": ("w", ("indices",), _at_indices),
    "_index_put_impl_": ("w", ("indices",), _at_indices),
    "index_select": ("r", _ALONG, _along),
    "index_add_": ("rw", _ALONG, _along),
    "index_copy_": ("w", _ALONG, _along),
    "index_fill_": ("w", _ALONG, _along),
    "index_reduce_": ("rw", _ALONG, _along),
    "gather": ("r", _ALONG, _pointwise),
    "scatter_": ("w", _ALONG, _pointwise),
    "scatter_add_": ("rw", _ALONG, _pointwise),
    "scatter_reduce_": ("rw", _ALONG, _pointwise),
    "take": ("r", _ONE, _counted),
    "put_": ("w", _ONE, _counted),
    "masked_fill_": ("w", ("mask",), _masked),
    "masked_scatter_": ("w", ("mask",), _masked),
    "masked_select": ("r", ("mask",), _masked),
    "embedding": ("r", ("indices",), _rows),
}
