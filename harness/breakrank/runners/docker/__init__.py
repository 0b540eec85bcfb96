"""The runner `docker`: ranks in containers of any image, one a rank, with a network and a folder of their own.

In each container the image's own interpreter runs a zygote from the staged agent; nothing is installed. It is called
through /proc/<pid>/root, and gets the rank's descriptors with the call (unix(7), SCM_RIGHTS): what a rank records lies
in the run directory as ever, without any path of ours in the container. A caller therefore needs to see the engine's
processes; from inside a container, the ranks' containers join its own process namespace.

This face and `endpoint` need no package beside ours; the other modules need docker's, and are imported when asked for.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from breakrank.errors import BreakrankError
from breakrank.runners.base import Runner
from breakrank.runners.kind import Resources, RunnerKind, RunSpec
from breakrank.runners.workdir import View
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.frameworks import PACKAGES


class Docker(RunnerKind):
    """Each rank in a container of the image that the plan names."""

    name = "docker"
    isolates = True
    has_image = True

    def lacks_framework(self, framework: str, image: str) -> str:
        """Return why an image cannot run the cases of a framework, or the empty string. Raises `BreakrankError`."""
        return str(part("image").lacking(image, framework))

    def lacks_program(self, capability: str, image: str) -> str | None:
        """Return that an image lacks a program or a package that ranks use, with the cure; None for what is neither."""
        if capability in PACKAGES:
            return self.lacks_framework(capability, image)
        program = part("image").STARTED.get(capability)
        return None if program is None else str(part("image").lacks_program(image, program))

    def software(self, plan: Plan) -> dict[str, Any]:
        """Return the image, with everything that is installed in it."""
        images = part("image")
        has = dict(images.versions(plan.image))
        known = {"image": plan.image, "image id": str(images.find_image(plan.image).id), "versions": has}
        return {**known, "python": has["python"], plan.framework: has.get(plan.framework, "missing")}

    @contextlib.contextmanager
    def prepare(self, resources: Resources, spec: RunSpec) -> Iterator[tuple[Runner, View | None]]:
        """Start the containers that the ranks will run in, with what they work on laid in."""
        yield part("runner").prepare(resources, spec)

    def sweep(self, show: bool, session: str) -> list[str]:
        """Remove the containers, networks and volumes of dead sessions, or only show them."""
        return list(part("sweep").sweep(show, session))


def part(name: str) -> Any:
    """Return a module of this package that needs docker's. Raises `BreakrankError` where that is missing."""
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise BreakrankError(
            f"the runner docker needs a package that is not installed here ({error.name}): "
            "pip install 'pytest-breakrank[docker]'"
        ) from None


RUNNER = Docker()
