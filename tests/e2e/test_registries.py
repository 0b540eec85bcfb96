"""Images are pulled with docker's own credentials from a registry that asks for them: a real one is started."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import containers

from breakrank.errors import BreakrankError
from breakrank.runners.docker import part

USER, PASSWORD = "somebody", "secret"
#: The registry takes nothing but bcrypt.
KNOWN = f"{USER}:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"
#: A program that keeps credentials: it speaks the protocol of docker-credential-helpers.
HELPER = """#!/bin/sh
read -r server
[ "$1 $server" = "get {server}" ] || {{ echo "credentials not found in native keychain"; exit 1; }}
{answer}
"""


@dataclass
class Registry:
    """A registry that runs, an image that only this registry has, and the folder of its files."""

    address: str
    repository: str
    image: str
    digest: str
    storage: Path

    @property
    def name(self) -> str:
        return f"{self.address}/{self.repository}"


def configured(folder: Path, content: object) -> Path:
    """Return a folder with this configuration of docker's."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(content))
    return folder


def authorized(address: str, password: str = PASSWORD) -> dict[str, object]:
    """Return the configuration that `docker login` leaves if no other program keeps credentials."""
    return {"auths": {address: {"auth": base64.b64encode(f"{USER}:{password}".encode()).decode()}}}


def docker(*arguments: str, config: Path, text: bytes = b"") -> str:
    """Run docker's own command; return its output."""
    command = ["docker", "--config", str(config), *arguments]
    return subprocess.run(command, input=text, check=True, capture_output=True).stdout.decode().strip()


def lacking() -> str:
    """Return why no registry can be started here that the engine reaches, or the empty string."""
    reason = containers.lacking()
    if reason or shutil.which("docker-registry") is None:
        return reason or "there is no program docker-registry on the path; apt-get install docker-registry"
    if part("engine").is_rootless():
        return "an engine that runs without root has a loopback device of its own: DOCKER_HOST names one"
    return ""


@pytest.fixture(scope="module")
def registry(tmp_path_factory) -> Iterator[Registry]:
    if reason := lacking():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("registry")
    (folder / "users").write_text(KNOWN)
    settings = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {"addr": "127.0.0.1:0", "secret": "none"},
        "auth": {"htpasswd": {"realm": "breakrank", "path": str(folder / "users")}},
    }
    (folder / "settings.yml").write_text(json.dumps(settings))
    command = ["setpriv", "--pdeathsig", "KILL", "docker-registry", "serve", str(folder / "settings.yml")]
    with open(folder / "log", "wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            yield push(listening(server, folder / "log"), folder)
        finally:
            server.kill()


def listening(server: subprocess.Popen[bytes], log: Path) -> str:
    """Return the address of a registry, as soon as the registry prints it."""
    while server.poll() is None:
        if said := re.search(r"listening on (127\.0\.0\.1:\d+)", log.read_text()):
            return said[1]
        time.sleep(0.01)
    raise AssertionError(log.read_text())


def push(address: str, folder: Path) -> Registry:
    """Push a new image to a registry under two tags, and remove it from the engine."""
    config = configured(folder / "docker", authorized(address))
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        entry = tarfile.TarInfo("drawn")
        entry.size = 32
        archive.addfile(entry, io.BytesIO(secrets.token_bytes(32)))
    repository = "team/breakrank-tried"
    one, latest = f"{address}/{repository}:one", f"{address}/{repository}:latest"
    image = docker("import", "-", one, config=config, text=layer.getvalue())
    docker("tag", one, latest, config=config)
    for name in (one, latest):
        docker("push", "-q", name, config=config)
    (digest,) = json.loads(docker("inspect", "--format", "{{json .RepoDigests}}", one, config=config))
    docker("rmi", one, latest, config=config)
    return Registry(address, repository, image, digest.partition("@")[2], folder / "storage")


@pytest.fixture
def pull(registry, monkeypatch) -> Iterator:
    """Return a function by which the runner finds an image with docker's configuration; the engine forgets it later."""

    def found(name: str, config: Path):
        monkeypatch.setenv("DOCKER_CONFIG", str(config))
        return part("image").find_image(name)

    yield found
    part("image").find_image.cache_clear()
    subprocess.run(["docker", "rmi", "--force", registry.image], capture_output=True)


def helper(folder: Path, monkeypatch, registry: Registry, answer: str) -> str:
    """Put a program that keeps credentials on the path; return its name."""
    path = folder / "docker-credential-tried"
    path.write_text(HELPER.format(server=registry.address, answer=answer))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return "tried"


@pytest.mark.parametrize("suffix", ["", ":one", "@DIGEST", ":one@DIGEST"])
def test_an_image_is_pulled_by_each_kind_of_name(registry, pull, tmp_path, suffix):
    config = configured(tmp_path, authorized(registry.address))
    assert pull(registry.name + suffix.replace("DIGEST", registry.digest), config).id == registry.image


@pytest.mark.parametrize("kept", ["credsStore", "credHelpers"])
def test_a_program_that_keeps_the_credentials_is_asked(registry, pull, tmp_path, monkeypatch, kept):
    name = helper(tmp_path, monkeypatch, registry, f'echo \'{{"Username": "{USER}", "Secret": "{PASSWORD}"}}\'')
    # `docker login` leaves an empty entry where a store keeps what belongs in it.
    content = {"auths": {registry.address: {}}, kept: name if kept == "credsStore" else {registry.address: name}}
    assert pull(registry.name, configured(tmp_path, content)).id == registry.image


def test_without_credentials_or_with_wrong_ones_it_says_where_to_log_in(registry, pull, tmp_path):
    start = f"there is no image {registry.name}, and it cannot be pulled: .*; "
    none = configured(tmp_path / "none", {})
    with pytest.raises(BreakrankError, match=f"{start}{none}/config.json has no credentials for it: docker login"):
        pull(registry.name, none)
    wrong = configured(tmp_path / "wrong", authorized(registry.address, "guessed"))
    with pytest.raises(BreakrankError) as refused:
        pull(registry.name, wrong)
    line = f"{start}the credentials for it from {wrong}/config.json are refused: docker login {registry.address}"
    assert re.fullmatch(line, str(refused.value))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("echo the chain; echo is locked; exit 1", 'exited with "the chain is locked'),
        ("echo nonsense", "what it prints is malformed"),
        ("echo '{}'", "what it prints is malformed"),
        (None, "not installed or not available in PATH"),
    ],
)
def test_a_program_that_does_not_give_the_credentials_is_named(registry, pull, tmp_path, monkeypatch, answer, why):
    name = "missing" if answer is None else helper(tmp_path, monkeypatch, registry, answer)
    config = configured(tmp_path, {"credHelpers": {registry.address: name}})
    with pytest.raises(BreakrankError) as refused:
        pull(registry.name, config)
    line = (
        f"docker-credential-{name} gives no credentials \\(.*{re.escape(why)}.*\\): mend it, or take it out of {config}"
    )
    assert re.search(line, str(refused.value)) and "\n" not in str(refused.value)


@pytest.mark.parametrize("entry", [{"auth": "zzz"}, {"auth": "enp6"}, "zzz"])
def test_a_configuration_that_is_not_dockers_is_one_line(registry, pull, tmp_path, entry):
    config = configured(tmp_path, {"auths": {registry.address: entry}})
    with pytest.raises(BreakrankError, match=f"docker's configuration {config}/config.json cannot be read"):
        pull(registry.name, config)


def test_what_fails_in_the_middle_is_said_too(registry, pull, tmp_path):
    """The engine has begun its answer before it finds that the registry has lost a part of the image."""
    config = configured(tmp_path, authorized(registry.address))
    part = registry.storage / "docker/registry/v2/blobs/sha256"
    (lost,) = part.glob(f"*/{registry.image.removeprefix('sha256:')}/data")
    held = lost.rename(tmp_path / "held")
    try:
        with pytest.raises(BreakrankError, match=r"it cannot be pulled: .*blob"):
            pull(registry.name, config)
    finally:
        held.rename(lost)


@pytest.mark.parametrize(
    "command",
    [
        ["pytest", "--scenario=baseline::torch-ddp", "--scenario-image={}", "-p", "no:cacheprovider"],
        ["breakrank", "image", "{}", "--against", "{}"],
    ],
    ids=["pytest", "breakrank"],
)
def test_a_refused_image_ends_either_command_with_one_line(registry, tmp_path, command):
    config = configured(tmp_path, authorized(registry.address, "guessed"))
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")} | {"DOCKER_CONFIG": str(config)}
    words = [word.format(registry.name) for word in command]
    done = subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 4, done.stdout + done.stderr
    assert f"are refused: docker login {registry.address}\n" in done.stderr and "Traceback" not in done.stderr
