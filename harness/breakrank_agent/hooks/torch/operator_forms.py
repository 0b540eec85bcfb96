"""Forms: what an operator of torch reads and writes of its arguments, as its schema says."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from breakrank_agent.hooks.torch.indices import Pick, pick_of

#: Operators that write a tensor without reading what was there.
_BLIND = frozenset(
    (
        *("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_"),
        *("log_normal_", "cauchy_", "resize_", "_foreach_copy_", "_foreach_zero_"),
    )
)
#: Operators that ask a tensor for its form only.
_FORM_ONLY = frozenset(
    (
        *("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like"),
        *("new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided", "is_same_size", "set_", "detach_"),
        *("sym_size", "sym_numel", "sym_stride", "sym_storage_offset", "record_stream", "resize_as_", "is_pinned"),
    )
)


class Form(NamedTuple):
    """The use that an operator makes of its arguments: the mode of each, by position and by name."""

    name: str
    modes: tuple[str, ...]
    by_name: dict[str, str]
    #: True if it reads and writes the same tensor; if it makes new ones.
    updates: bool
    makes: bool
    #: The pick of its first argument, if it is an operator by index.
    pick: Optional[Pick] = None


def form_of(func: Any) -> Optional[Form]:
    """Return an operator's form, or None if it touches no data."""
    space, name = func._schema.name.split("::")
    # Collectives show themselves, see `breakrank_agent.hooks.torch.tensor_accesses`.
    if space in ("c10d", "_c10d_functional") or func.is_view or name in _FORM_ONLY:
        return None
    modes = []
    for argument in func._schema.arguments:
        written = argument.alias_info is not None and argument.alias_info.is_write
        blind = name in _BLIND or argument.is_out
        modes.append(("w" if blind else "rw") if written else "r")
    makes = any(result.alias_info is None for result in func._schema.returns)
    names = [argument.name for argument in func._schema.arguments]
    pick = pick_of(name, names)
    updates = "rw" in modes and pick is None
    return Form(func.__name__, tuple(modes), dict(zip(names, modes)), updates, makes, pick)


def collective_form(func: Any) -> Form:
    """Return the form of a collective, whose schema says nothing of what it writes."""
    name, modes = func._schema.name.split("::")[1], []
    for argument in func._schema.arguments:
        if "Tensor" not in str(argument.type):
            modes.append("")
        elif "output" in argument.name or name in ("recv_", "recv_any_source_"):
            modes.append("w")
        elif "input" in argument.name or name == "send":
            modes.append("r")
        else:
            modes.append("rw")
    names = [argument.name for argument in func._schema.arguments]
    return Form(f"c10d::{name}", tuple(modes), dict(zip(names, modes)), False, False)
