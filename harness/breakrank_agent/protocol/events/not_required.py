"""The mark of a field that may be absent, for a Python that has no `typing.NotRequired` (before 3.11).

The stub beside this file tells a type checker that it is that one.
"""

from __future__ import annotations

from typing import Annotated, Any


class NotRequired:
    """Marks a field that may be absent."""

    def __class_getitem__(cls, kind: Any) -> Any:
        """Return the type of the field, with the mark."""
        return Annotated[kind, cls]
