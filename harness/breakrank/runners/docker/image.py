"""Images: found or pulled, and asked for their Python, their distributions and their programs."""

from __future__ import annotations

import contextlib
import functools
import secrets
from collections.abc import Mapping, Sequence

import docker
from docker.errors import DockerException, ImageNotFound

from breakrank.errors import BreakrankError
from breakrank.runners.docker import untrusted
from breakrank.runners.docker.engine import engine, words_of
from breakrank.runners.docker.registry import DENIED, credentials_for
from breakrank_agent.protocol.frameworks import distributions

#: The capabilities that are programs which ranks start themselves: they have to be where the ranks are.
STARTED = {"compiler": "cc"}
#: Says what an image has: its Python, and the version of each distribution, by its normalized name (PEP 503). And which
#: of the programs that it is asked for.
ASK = (
    "import importlib.metadata as m, json, platform, re, shutil, sys\n"
    "names = {re.sub('[-_.]+', '-', d.metadata['Name'] or '').lower(): d.version for d in m.distributions()}\n"
    "there = list(filter(shutil.which, sys.argv[1:]))\n"
    "print(json.dumps([{**names, 'python': platform.python_version()}, there]))\n"
)


@functools.cache
def find_image(name: str) -> docker.models.images.Image:
    """Return an image, pulled if it is not there, with the credentials that docker has. Raises `BreakrankError`."""
    client = engine()
    try:
        try:
            return client.images.get(name)
        except ImageNotFound:
            _pull(name)
            return client.images.get(name)
    except DockerException as error:
        raise BreakrankError(f"there is no image {name}, and it cannot be pulled: {words_of(error)}") from None


def _pull(name: str) -> None:
    """Have the engine pull an image. Raises what the engine says, with what to do about credentials that fail."""
    repository, tag = docker.utils.parse_repository_tag(name)
    registry, _ = docker.auth.resolve_repository_name(repository)
    credentials, flaw = credentials_for(registry)
    try:
        # An error after the engine has begun to answer is one of its lines.
        lines = engine().api.pull(repository, tag or "latest", stream=True, decode=True, auth_config=credentials)
        failed = next((line["error"] for line in lines if "error" in line), "")
        if failed:
            raise DockerException(failed)
    except DockerException as error:
        said = words_of(error)
        raise DockerException(f"{said}; {flaw}" if DENIED.search(said) else said) from None


@functools.cache
def _contents(name: str) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return the versions of Python and of each distribution in an image, and the programs that it has."""
    find_image(name)
    called = f"breakrank-asked-{secrets.token_hex(6)}"
    how = {"entrypoint": ["python3"], "network_mode": "none", "name": called, "remove": True}
    try:
        # It ends by itself, whatever becomes of us.
        printed = engine().containers.run(name, ["-c", ASK, *STARTED.values()], **how)
    except (DockerException, OSError) as error:
        # The engine does not remove a container that it could not start.
        with contextlib.suppress(DockerException, OSError):
            engine().api.remove_container(called, force=True)
        raise BreakrankError(f"the image {name} has no python3 that runs: {words_of(error)}") from None
    try:
        return untrusted.contents(printed)
    except ValueError as error:
        raise BreakrankError(f"the image {name} has no python3 that runs: {error}") from None


def versions(name: str) -> Mapping[str, str]:
    """Return the versions of Python, and of each distribution, in an image. Raises `BreakrankError`."""
    return _contents(name)[0]


def lacking(name: str, framework: str) -> str:
    """Return why an image cannot run the cases of a framework, or the empty string. Raises `BreakrankError`."""
    has = versions(name)
    if framework in ("", "none") or has.keys() & set(distributions(framework)):
        return ""
    return f"there is no {framework} in the image {name} (Python {has['python']})"


def lacks_program(name: str, program: str) -> str:
    """Return that an image lacks one of the programs that ranks start, with the cure, or the empty string.

    Raises `BreakrankError`.
    """
    there = program in _contents(name)[1]
    return "" if there else f"there is no program {program} in the image {name}; install it there"
