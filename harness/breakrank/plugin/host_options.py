"""The options that name hosts, and the command that reaches them."""

from __future__ import annotations

import shlex

import pytest

from breakrank.errors import BreakrankError
from breakrank.nodes.host_names import Hosts
from breakrank.plugin.command_line import PREFIX, destination


def host_names(config: pytest.Config) -> list[str]:
    """Return the hosts that were named, by the option or in the ini file."""
    text = _option(config)
    text = str(config.getini("scenario_hosts")) if text is None else text
    return [name for one in text.replace(",", " ").split() if (name := one.strip())]


def read_hosts(config: pytest.Config) -> Hosts:
    """Return the hosts that ranks are to be started on. Raises `BreakrankError` for names that cannot be."""
    names = host_names(config)
    if _option(config) is not None and not names:
        raise BreakrankError(f"{PREFIX}-hosts names no host; give some as ssh knows them, as in {PREFIX}-hosts=a,b")
    for name in names:
        if name.startswith("-"):
            raise BreakrankError(f"{PREFIX}-hosts names {name!r}, which is no host but an option; leave it out")
        if names.count(name) > 1:
            raise BreakrankError(f"{PREFIX}-hosts names {name} twice; name each host once")
    try:
        ssh = tuple(shlex.split(str(config.getini("scenario_ssh"))))
    except ValueError as error:
        raise BreakrankError(f"the ini option scenario_ssh cannot be read: {error}") from None
    return Hosts(tuple(names), ssh or ("ssh",))


def _option(config: pytest.Config) -> str | None:
    value = getattr(config.option, destination("-hosts"), None)
    return None if value is None else str(value)
