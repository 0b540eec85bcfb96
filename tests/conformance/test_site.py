"""The documentation builds as a site, without a warning and without a network, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mkdocs.config import load_config

ROOT = Path(__file__).parents[2]
#: Attributes by which a page loads something; a link is only followed by its reader.
_LOADED = re.compile(
    r"""(?:<(?:script|img|iframe)[^>]*\ssrc|<link[^>]*rel="stylesheet"[^>]*\shref)=["']?(https?:|//)"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder of the site, built with a warning as an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    # No proxy answers at port 9: whoever asks the network fails.
    away = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
    env = {**os.environ, **away, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    return folder


def test_each_page_is_in_the_site_and_in_its_menu(site):
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    named = {"README.html": "index.html"}
    built = {path.parent / named.get(path.name, path.name) for path in pages} | {Path("contributing.html")}
    assert {path for path in built if not (site / path).is_file()} == set()
    menu = str(load_config(str(ROOT / "mkdocs.yml"))["nav"])
    missing = [path.name for path in (ROOT / "docs").glob("*.md") if f"'{path.name}'" not in menu]
    assert not missing, f"mkdocs.yml has no entry for {', '.join(missing)}"


def test_a_page_loads_nothing_from_elsewhere(site):
    found = {path.name: _LOADED.findall(path.read_text()) for path in site.rglob("*.html")}
    assert {name: what for name, what in found.items() if what} == {}


def test_the_page_of_the_interface_has_each_argument_of_launch(site):
    text = (site / "api.html").read_text()
    for name in ("ranks", "faults", "deadline_s", "patience_s", "in_place", "apart", "reference", "resume"):
        assert f">{name}<" in text, name
