"""The training that is traced into the graphs of functions, kept with each graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

#: The attribute of a graph that keeps the training traced into it.
_TRACED = "_breakrank_traced"


class Traced:
    """The training traced into a graph: optimizers, by identity, and whether gradients were taken."""

    def __init__(self) -> None:
        self.optimizers: set[int] = set()
        self.derives = False


def traced_into(graph: Any) -> Optional[Traced]:
    """Return what was traced into a graph; None if nothing was."""
    return getattr(graph, _TRACED, None)


def around(graph: Any) -> Iterator[Traced]:
    """Yield what was traced into a graph, and into each one that it is part of."""
    while graph is not None:
        traced = getattr(graph, _TRACED, None)
        if traced is None:
            traced = Traced()
            setattr(graph, _TRACED, traced)
        yield traced
        graph = getattr(graph, "outer_graph", None)
