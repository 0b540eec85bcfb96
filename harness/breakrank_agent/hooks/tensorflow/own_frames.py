"""The agent's own frames, kept out of what TensorFlow notes of a graph: of places of operations, and of errors."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import breakrank_agent


def hide_frames() -> None:
    """Keep our frames out of the places that TensorFlow notes for operations of a graph, and names in errors."""
    from tensorflow.python.util import tf_stack

    ours = frozenset(_files_in(breakrank_agent))

    class Filter(tf_stack.StackTraceFilter):
        """Leaves out the agent's files."""

        def get_filtered_filenames(self) -> frozenset[str]:
            return ours

    def begin() -> list[Any]:
        lowest = Filter()
        lowest.update()
        return [lowest]

    tf_stack._source_filter_stacks.default_factory = begin
    for stack in tf_stack._source_filter_stacks.values():
        stack[:1] = begin()


def _files_in(package: ModuleType) -> Iterator[str]:
    """Yield the files of the modules in a package that have been imported."""
    # Of all modules that are loaded, thousands, not one other is touched: a rank shares their memory with its zygote.
    for value in list(vars(package).values()):
        if isinstance(value, ModuleType) and value.__name__.startswith(f"{package.__name__}."):
            yield str(value.__file__)
            if hasattr(value, "__path__"):
                yield from _files_in(value)
