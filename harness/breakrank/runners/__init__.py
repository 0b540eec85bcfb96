"""Runners: how ranks come to exist, and what can be done to them from outside. One per file."""

from __future__ import annotations

import importlib
import types

from breakrank.errors import BreakrankError

#: The capabilities that are programs which ranks start themselves: they have to be where the ranks are.
STARTED = {"compiler": "cc"}


def docker_runner() -> types.ModuleType:
    """Return the module of the runner `docker`. Raises `BreakrankError` where docker's package is missing."""
    try:
        return importlib.import_module("breakrank.runners.docker")
    except ModuleNotFoundError as error:
        raise BreakrankError(
            f"the runner docker needs a package that is not installed here ({error.name}): "
            "pip install 'pytest-breakrank[docker]'"
        ) from None
