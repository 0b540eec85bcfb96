"""Removal of what sessions have in the engine: containers, networks and volumes, by their label."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from docker.errors import APIError, NotFound

from breakrank.errors import BreakrankError
from breakrank.host.session_name import is_alive
from breakrank.runners.docker.engine import at_once, engine, words_of

#: The label of our containers, networks and volumes: the session that owns them.
LABEL = "breakrank.session"
#: Seconds for the engine to remove everything of ours, on a busy machine. A limit, too.
_REMOVED_S = 60.0


def remove(session: str) -> list[str]:
    """Remove what carries a session's id; return what that was. Raises `BreakrankError` if the engine does not.

    It may make a container yet that it was asked for before, and frees a network only when the last one has left it.
    """
    gone: dict[str, None] = {}
    until = time.monotonic() + _REMOVED_S
    while refused := _remove_once(session, gone):
        if time.monotonic() > until:
            raise BreakrankError(f"the engine does not remove what is ours: {refused}")
        time.sleep(0.05)
    return list(gone)


def _remove_once(session: str, gone: dict[str, None]) -> str:
    """Remove what can be removed now, and note it; return what was refused, empty if there was nothing.

    Networks and volumes go after the containers.
    """
    filters = {"label": f"{LABEL}={session}"}
    client = engine()
    containers = client.containers.list(all=True, filters=filters, ignore_removed=True)
    around = [("network", one) for one in client.networks.list(filters=filters)]
    around += [("volume", one) for one in client.volumes.list(filters=filters)]
    gone.update({f"container {one.name}": None for one in containers})
    gone.update({f"{kind} {one.name}": None for kind, one in around})
    refused = at_once(*(partial(_refused, partial(one.remove, force=True)) for one in containers))
    refused += at_once(*(partial(_refused, one.remove) for _, one in around))
    return next(filter(None, refused), "")


def _refused(remove_it: Callable[[], object]) -> str:
    """Have something removed; return why the engine does not, empty if it is gone."""
    try:
        remove_it()
    except NotFound:
        pass
    except APIError as error:
        return words_of(error)
    return ""


def sweep(show: bool = False, session: str = "") -> list[str]:
    """Remove what sessions have left in the engine whose owner is dead, or only show it; return what that is.

    With `session`, it is what carries that id, whether or not the owner is alive.
    """
    client, filters = engine(), {"label": LABEL}
    found: dict[str, list[str]] = {}
    for kind, labels, name in [
        *(
            ("container", one.labels, one.name)
            for one in client.containers.list(all=True, filters=filters, ignore_removed=True)
        ),
        *(("network", one.attrs["Labels"], one.name) for one in client.networks.list(filters=filters)),
        *(("volume", one.attrs["Labels"], one.name) for one in client.volumes.list(filters=filters)),
    ]:
        if labels[LABEL] == session or not (session or is_alive(labels[LABEL])):
            found.setdefault(labels[LABEL], []).append(f"{kind} {name}")
    if not show:
        for dead in found:
            remove(dead)
    return [name for names in found.values() for name in names]
