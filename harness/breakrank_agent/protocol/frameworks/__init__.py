"""Profiles of the frameworks, one a file: the folder is the registry.

A profile holds the facts about a framework that both sides know. Its hooks lie in `breakrank_agent/hooks/NAME/`. To
import a profile imports no framework. A file `NAME.py` holds one value `FRAMEWORK`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Callable, Optional

#: The framework of a case or a script that names none.
DEFAULT = "torch"
#: In the environment of ranks: modules beyond the framework's that they are forked with, divided by commas.
WARM = "BREAKRANK_WARM"


@dataclass(frozen=True)
class KnownWait:
    """One line of a table that tells from a stack what a thread waits for: frames of `file` in one of `functions`.

    `file` is a part of the file's path; without `functions` any function fits. `kind` is meeting, backward, other or
    launcher, `name` is for people.
    """

    file: str
    functions: tuple[str, ...]
    kind: str
    name: str


@dataclass(frozen=True)
class Framework:
    """The facts about one framework. `name` is also that of the module that a program imports."""

    name: str
    #: The command that installs it.
    cure: str
    #: Its outermost modules: while one of them is being imported, the framework is.
    modules: tuple[str, ...]
    #: Modules that a zygote imports. A first step imports some of them late, which would cost each rank a second.
    warm: tuple[str, ...]
    #: Variables that a rank of ours starts with, so that results do not depend on the machine.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Names of the variables by which a rank finds its peers, beyond those that torchrun sets.
    variables: tuple[str, ...] = ()
    #: Names of variables that are read with the first operation, not by an import: a zygote serves all their values.
    late: tuple[str, ...] = ()
    #: Gives these their values, from the rank, the address (host:port) of each rank's own server, and the environment
    #: that the case asks for. Without it, ranks have no server of their own.
    cluster: Optional[Callable[[int, Sequence[str], Mapping[str, str]], dict[str, str]]] = None
    #: Finds in an environment the rank and the world size that these variables give; without it, none do.
    place: Optional[Callable[[Mapping[str, str]], Optional[tuple[int, int]]]] = None
    #: Oracles that join the default ones for a case of this framework.
    oracles: tuple[str, ...] = ()
    #: The names that people call collectives by, where it is not the operator's own.
    spoken: Mapping[str, str] = field(default_factory=dict)
    #: Modules of `breakrank/host/blocked/` that know the threads of its backends.
    backends: tuple[str, ...] = ()
    #: Packages whose frames are never the user's own.
    packages: tuple[str, ...] = ()
    #: Ends of the paths of the files whose public functions are collectives.
    collectives: tuple[str, ...] = ()
    #: Calls, by the end of the file's path and the function, below which a process is a helper of a rank, and which.
    helpers: Mapping[tuple[str, str], str] = field(default_factory=dict)
    #: Waits, most telling first.
    waits: tuple[KnownWait, ...] = ()


@dataclass(frozen=True)
class Package:
    """A package that some programs use beyond a framework; cases name its module as a need."""

    #: The name that it is installed by.
    distribution: str
    #: Modules that ranks are forked with: to import them takes seconds.
    warm: tuple[str, ...] = ()


#: By the name of the module.
PACKAGES: Mapping[str, Package] = {
    "transformers": Package("transformers", warm=("transformers.models.mobilenet_v2.modeling_mobilenet_v2",)),
    "PIL": Package("pillow"),
    "safetensors": Package("safetensors"),
}


@functools.cache
def all_frameworks() -> Mapping[str, Framework]:
    """Return every profile by name, the default one first."""
    names = sorted((found.name for found in pkgutil.iter_modules(__path__)), key=lambda name: (name != DEFAULT, name))
    return {name: importlib.import_module(f"{__name__}.{name}").FRAMEWORK for name in names}


def profile(name: str) -> Framework:
    """Return a framework's profile. Of any other name but `none`, no more is known than that it is a module's."""
    own = () if name in ("", "none") else (name,)
    return all_frameworks().get(name) or Framework(
        name, cure=f"pip install {distributions(name)[0]}", modules=own, warm=own
    )


def distributions(name: str) -> tuple[str, ...]:
    """Return the names that a framework or package is installed by: a build without CUDA can have one of its own."""
    return (PACKAGES[name].distribution,) if name in PACKAGES else (name, f"{name}-cpu")
