"""Hooks are found in their folders, and installed by name, unless a hook says which one it comes after."""

from __future__ import annotations

import pytest

from breakrank_agent.hooks import all_hooks, in_order


def test_a_hook_comes_after_those_that_it_names_and_the_others_keep_their_order():
    assert in_order({"a": ("d",), "b": (), "c": ("b",), "d": ()}) == ["b", "c", "d", "a"]


@pytest.mark.parametrize("after", [{"a": ("b",), "b": ("a",)}, {"a": ("gone",)}])
def test_an_order_that_cannot_be_is_refused_with_the_names(after):
    with pytest.raises(ValueError, match="among a"):
        in_order(after)


def test_every_hook_can_be_installed_and_those_of_python_come_first():
    names = [hook.__name__.rpartition("hooks.")[2] for hook in all_hooks()]
    assert all(callable(hook.install) and isinstance(hook.WAITS_FOR, str) for hook in all_hooks())
    python = [name for name in names if name.startswith("python.")]
    assert python and names[: len(python)] == python
    assert names.index("python.census") < names.index("torch.live_tensors")
    assert "torch.indices" not in names, "a module that hooks use is none"
