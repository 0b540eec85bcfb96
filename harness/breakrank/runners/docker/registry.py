"""Credentials for registries: those that docker's own command keeps, or has a program keep."""

from __future__ import annotations

import re
import warnings
from typing import Any

import docker
from docker.errors import DockerException

from breakrank.errors import BreakrankError
from breakrank.runners.docker import endpoint

#: Errors of a configuration that docker has not written, or of the output of a program that keeps credentials.
MALFORMED = (ValueError, KeyError, TypeError, AttributeError)
#: The words of registries and engines, in all versions, for credentials that are missing or refused.
DENIED = re.compile(
    r"no basic auth|unauthori[sz]ed|authori[sz]ation|authentication|denied|forbidden|docker login", re.I
)


def configured() -> docker.auth.AuthConfig:
    """Return whose registries docker has credentials for, and who keeps them. Raises `BreakrankError`."""
    try:
        return docker.auth.load_config()
    except (*MALFORMED, DockerException) as error:
        raise BreakrankError(
            f"docker's configuration {endpoint.configuration()} cannot be read ({error}); correct it, or remove what "
            "is below auths, and docker login again"
        ) from None


def credentials_for(registry: str) -> tuple[dict[str, Any], str]:
    """Return the credentials that docker has for a registry, and what is wrong with them if they do not do.

    Like docker itself, without them it is tried all the same: what anybody may have needs none.
    """
    kept, where = configured(), endpoint.configuration()
    try:
        with warnings.catch_warnings():
            # The warning about a missing program repeats the exception that follows.
            warnings.simplefilter("ignore")
            found = docker.auth.resolve_authconfig(kept, registry)
    except (*MALFORMED, DockerException) as error:
        program = docker.credentials.constants.PROGRAM_PREFIX + str(kept.get_credential_store(registry))
        malformed = not isinstance(error, DockerException)
        why = "what it prints is malformed" if malformed else " ".join(str(error.__cause__ or error).split())
        return {}, f"{program} gives no credentials ({why}): mend it, or take it out of {where}"
    if not found:
        return {}, f"{where} has no credentials for it: docker login {registry}"
    return found, f"the credentials for it from {where} are refused: docker login {registry}"
