"""The images that tests of containers run in, and the reason if one of them cannot be used here."""

from __future__ import annotations

import importlib.util
import subprocess

import pytest

from breakrank import doctor

TORCH = "breakrank-torch"
TENSORFLOW = "breakrank-tensorflow"
#: The oldest Python that the agent supports, and the newest.
BARE = {"3.9": "breakrank-python3.9", "3.13": "breakrank-python3.13"}


def lacking(image: str = "") -> str:
    """Return why no container can be started here, of this image, or the empty string."""
    reason = doctor.missing(["docker"])
    if reason:
        return reason
    if importlib.util.find_spec("docker") is None:
        return "needs the package docker: pip install 'pytest-breakrank[docker]'"
    if not image or subprocess.run(["docker", "image", "inspect", image], capture_output=True).returncode == 0:
        return ""
    return f"needs the image {image}: make image{f' ARGS={image}' if image == TENSORFLOW else ''}"


def require(image: str) -> str:
    """Return the image, or skip the test with the reason why it cannot be used."""
    reason = lacking(image)
    if reason:
        pytest.skip(reason)
    return image
