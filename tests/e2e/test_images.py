"""Images are built from the packages of the interpreter that builds them: a framework, and all that it needs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest
from support import containers

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def build(monkeypatch) -> ModuleType:
    path = Path(__file__).parents[2] / "fixtures/image/build.py"
    spec = importlib.util.spec_from_file_location("build_image", path)
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up in sys.modules.
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "KEYS", __file__)
    return module


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that makes a distribution for this interpreter: its files, their contents, and its needs."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name: str, files: dict[str, str], *needs: str) -> None:
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        lines = [
            "Metadata-Version: 2.1",
            f"Name: {name}",
            "Version: 1.0",
            *(f"Requires-Dist: {need}" for need in needs),
        ]
        (about / "METADATA").write_text("\n".join(lines) + "\n")
        (about / "RECORD").write_text("".join(f"{path},,\n" for path in [*files, f"{about.name}/METADATA"]))

    return make


def test_what_a_package_needs_is_followed_through_extras_and_markers(build, install):
    install("frame", {}, "toolkit[fast]", "never; python_version < '3'")
    install("toolkit", {}, "quick; extra == 'fast'", "exact; extra == 'slow'")
    install("quick", {})
    assert set(build._needed(("frame",))) == {"frame", "toolkit", "quick"}


def test_an_image_says_why_it_cannot_be_built_here(build, install):
    install("frame", {}, "toolkit")
    image = build.Image("bookworm", HERE, ("frame",))
    assert build.lacking(image) == f"{sys.executable} has no toolkit"
    install("toolkit", {})
    assert build.lacking(image) == ""
    assert "this is " + HERE in build.lacking(build.Image("bookworm", "2.7", ("frame",)))
    assert build.lacking(build.Image("bookworm", "2.7")) == ""


def test_what_cannot_be_built_is_one_line(build, monkeypatch):
    monkeypatch.setattr(build, "IMAGES", {"some": build.Image("bookworm", HERE, ("no-such-package",))})
    with pytest.raises(SystemExit, match=r"some:tag cannot be built: .* has no no-such-package"):
        build.main(["some:tag"])
    with pytest.raises(SystemExit, match="there is no image other:tag to build; there are some"):
        build.main(["other:tag"])


def test_an_image_of_any_tag_has_the_packages_of_the_interpreter_that_builds_it(
    build, install, monkeypatch, capsys, tmp_path
):
    reason = containers.lacking()
    if reason:
        pytest.skip(reason)
    install("frame", {"frame/__init__.py": "VERSION = 1\n", "frame/lib.a": "static"}, "toolkit")
    install("toolkit", {"toolkit.py": ""})
    monkeypatch.setattr(build, "IMAGES", {"breakrank-frame": build.Image("bookworm", HERE, ("frame",))})
    # Debian's own files would have to be fetched from its archive.
    monkeypatch.setattr(build, "unpack", lambda image, scratch, tree: (tree / "bin").mkdir(parents=True))
    name = f"breakrank-frame:{os.getpid()}"
    try:
        build.main([name])
        build.main([name])
        first, second = capsys.readouterr().out.splitlines()
        assert first.startswith(f"{name}: bookworm, Python {HERE}, frame 1.0: ") and first.endswith(" MB")
        assert second == f"{name} is there already: bookworm, Python {HERE}, frame 1.0"
        saved = tmp_path / "saved.tar"
        subprocess.run(["docker", "save", "-o", saved, name], check=True)
        assert names_in(saved) == {
            "frame/__init__.py",
            "frame-1.0.dist-info/METADATA",
            "toolkit.py",
            "toolkit-1.0.dist-info/METADATA",
        }
    finally:
        subprocess.run(["docker", "rmi", name], stdout=subprocess.DEVNULL, check=True)


def names_in(saved: Path) -> set[str]:
    """Return the files of a saved image in the folder in which Debian's Python looks for packages."""
    found = set()
    with tarfile.open(saved) as image:
        for entry in image:
            layer = image.extractfile(entry) if entry.isfile() else None
            if layer is None:
                continue
            try:
                with tarfile.open(fileobj=layer) as packed:
                    found |= {name.partition("/dist-packages/")[2] for name in packed.getnames()}
            except tarfile.ReadError:
                # An entry that describes the image is no layer.
                continue
    return found - {""}
