"""Permission to trace a process, where the kernel restricts it (Yama, prctl(2) PR_SET_PTRACER)."""

from __future__ import annotations

import contextlib
import ctypes

_PR_SET_PTRACER, _ANYBODY = 0x59616D61, -1


def let_anybody_trace() -> None:
    """Let any process of the user trace this one, or read its memory, where the kernel lets only an ancestor."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(_ANYBODY), 0, 0, 0)
