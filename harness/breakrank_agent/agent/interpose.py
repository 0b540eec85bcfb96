"""The one way to wrap a function that is not ours. The hottest hooks alone do it by hand, and say so."""

from __future__ import annotations

import functools
import inspect
from contextlib import AbstractContextManager
from typing import Any, Callable, Optional

from breakrank_agent.agent.tracebacks import hide

Before = Optional[Callable[..., Any]]
Around = Optional[Callable[..., AbstractContextManager[Any]]]
After = Optional[Callable[[Any, Any], Any]]
Failed = Optional[Callable[[Any, BaseException], None]]


def interpose(
    owner: Any, name: str, before: Before = None, after: After = None, failed: Failed = None, around: Around = None
) -> Any:
    """Put a wrapper in the place of a function of a module, or of a method of a class, and return the wrapper.

    `before` gets the arguments of the call, and returns a token for the other two. `after` gets the token and the
    result, and returns None, or another result for the caller. `failed` gets the token and the error, which goes on.
    `around` takes the place of `before`: it returns a context for the call, and what that yields is the token.

    The wrapper has the name and the signature of the original, and a traceback does not show it. The caller's frame is
    `sys._getframe(2)` in `before`. The values of a generator function are not seen: its call is over when it begins.
    """
    original = getattr(owner, name)
    bound = inspect.getattr_static(owner, name, None)
    kind = type(bound) if isinstance(bound, (staticmethod, classmethod)) and inspect.isclass(owner) else None
    if kind is not None:
        original = bound.__func__
    wrapper = _wrap(original, before, after, failed) if around is None else _enclose(original, around, after, failed)
    setattr(owner, name, wrapper if kind is None else kind(wrapper))
    return wrapper


def receiver(self: Any, *_: Any, **__: Any) -> Any:
    """Return the object that a method is called of: a `before` for who needs nothing else later on."""
    return self


def _wrap(original: Any, before: Before, after: After, failed: Failed) -> Callable[..., Any]:
    if before is not None and after is None and failed is None:
        return _precede(original, before)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        token = before(*args, **kwargs) if before is not None else None
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            hide(error)
            if failed is not None:
                failed(token, error)
            raise
        other = after(token, result) if after is not None else None
        return result if other is None else other

    return wrapper


def _precede(original: Any, before: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper for a `before` alone, which costs less."""

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        before(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise

    return wrapper


def _enclose(original: Any, around: Callable[..., Any], after: After, failed: Failed) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        token = None
        try:
            with around(*args, **kwargs) as token:
                result = original(*args, **kwargs)
        except BaseException as error:
            hide(error)
            if failed is not None:
                failed(token, error)
            raise
        other = after(token, result) if after is not None else None
        return result if other is None else other

    return wrapper
