"""Every hook that is discovered: it says what it hooks, for what it waits, and how it is installed."""

from __future__ import annotations

import inspect

import pytest
from support.parts import HOOKS

from breakrank_agent.hooks import all_hooks

BY_NAME = {"/".join(hook.__name__.split(".")[-2:]): hook for hook in all_hooks()}


@pytest.mark.parametrize("name", HOOKS)
def test_it_says_what_it_is(name):
    hook = BY_NAME[name]
    assert hook.__doc__ and hook.__doc__.splitlines()[0].endswith(".")
    assert list(inspect.signature(hook.install).parameters) == ["agent"]


@pytest.mark.parametrize("name", HOOKS)
def test_it_waits_for_a_module_of_its_framework(name):
    framework, waits_for = name.partition("/")[0], BY_NAME[name].WAITS_FOR
    assert isinstance(waits_for, str)
    assert (
        not waits_for
        or framework == "python"
        or waits_for.partition(".")[0] in (framework, "keras", "tf_keras", "safetensors")
    )
