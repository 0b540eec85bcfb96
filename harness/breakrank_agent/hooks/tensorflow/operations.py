"""Operations of TensorFlow that run eagerly, for the hooks that look at each of them."""

from __future__ import annotations

import functools
from typing import Any, Callable


def _pass_by(*_: Any) -> None:
    """Do nothing about an operation."""


def watch_operations(
    before: Callable[[Any, Any], None] = _pass_by,
    after: Callable[[Any, Any], None] = _pass_by,
    made: Callable[[Any, Any, Any], None] = _pass_by,
) -> None:
    """Have each operation that runs eagerly shown, in every thread: its name and inputs, then its name and results.

    `made` is shown all three, when the operation has run.

    All of them go through two functions of `pywrap_tfe`, which are looked up at each call. They are wrapped by hand:
    a step can run thousands of them.
    """
    from tensorflow.python import pywrap_tfe

    quick, full = pywrap_tfe.TFE_Py_FastPathExecute, pywrap_tfe.TFE_Py_Execute

    @functools.wraps(quick)
    def TFE_Py_FastPathExecute(context: Any, op: str, name: Any, *args: Any) -> Any:
        before(op, args)
        result = quick(context, op, name, *args)
        after(op, result)
        made(op, args, result)
        return result

    @functools.wraps(full)
    def TFE_Py_Execute(context: Any, device: Any, op: Any, inputs: Any, *args: Any) -> Any:
        before(op, inputs)
        result = full(context, device, op, inputs, *args)
        after(op, result)
        made(op, inputs, result)
        return result

    pywrap_tfe.TFE_Py_FastPathExecute, pywrap_tfe.TFE_Py_Execute = TFE_Py_FastPathExecute, TFE_Py_Execute
