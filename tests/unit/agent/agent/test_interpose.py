"""A wrapper sees calls, results and errors, and nobody sees the wrapper."""

from __future__ import annotations

import contextlib
import inspect
import json
import pickle
import sys
import threading
import traceback
import types

import pytest

from breakrank_agent.agent import interpose as module
from breakrank_agent.agent.interpose import interpose


class Shape:
    """A class that is not ours."""

    def __init__(self, sides: int = 4) -> None:
        self.sides = sides

    def scale(self, by: int, *, twice: bool = False) -> int:
        """Multiply."""
        return self.sides * by * (1 + twice)

    def crack(self) -> None:
        raise ValueError("cracked")

    def none(self) -> None:
        return None

    @staticmethod
    def add(a: int, b: int) -> int:
        return a + b

    @classmethod
    def made(cls, sides: int) -> Shape:
        return cls(sides)

    def corners(self):
        yield from range(self.sides)


class Square(Shape):
    pass


@pytest.fixture
def kind(monkeypatch):
    """Return a class of its own for each test, with the methods of `Shape`."""
    body = {name: value for name, value in vars(Shape).items() if name not in ("__dict__", "__weakref__")}
    return type("Shape", (), body)


def frames(error: BaseException) -> list[str]:
    """Return the files of the frames that a traceback shows."""
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def test_before_gets_the_arguments_and_after_its_token_and_the_result(kind):
    seen = []
    interpose(kind, "scale", before=lambda shape, by, **named: (by, named), after=lambda *those: seen.append(those))
    assert kind().scale(2, twice=True) == 16 and seen == [((2, {"twice": True}), 16)]


def test_after_may_give_the_caller_another_result(kind):
    interpose(kind, "scale", after=lambda token, result: -result)
    assert kind().scale(2) == -8


def test_a_result_of_none_and_one_that_is_false_stay(kind):
    interpose(kind, "none", after=lambda token, result: None)
    interpose(kind, "scale", after=lambda token, result: None)
    assert kind().none() is None and kind(0).scale(3) == 0
    interpose(kind, "add", after=lambda token, result: 0)
    assert kind.add(1, 2) == 0


def test_failed_gets_the_token_and_the_error_and_the_error_goes_on(kind):
    seen = []
    interpose(kind, "crack", before=lambda shape: "token", failed=lambda *those: seen.append(those))
    with pytest.raises(ValueError, match="cracked") as caught:
        kind().crack()
    assert seen == [("token", caught.value)]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_failed_sees_what_is_no_exception_too(kind, error):
    def leave(shape):
        raise error

    kind.scale, seen = leave, []
    interpose(kind, "scale", failed=lambda token, what: seen.append(what))
    with pytest.raises(type(error)):
        kind().scale()
    assert seen == [error]


def test_after_is_not_asked_about_an_error_nor_failed_about_a_result(kind):
    seen = []
    for name in ("crack", "none"):
        asked = {"after": lambda *_, name=name: seen.append((name, "after"))}
        interpose(kind, name, **asked, failed=lambda *_, name=name: seen.append((name, "failed")))
    kind().none()
    with pytest.raises(ValueError):
        kind().crack()
    assert seen == [("none", "after"), ("crack", "failed")]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older ones show one line of ours")
@pytest.mark.parametrize("how", ["before", "around", "twice"])
def test_a_traceback_shows_no_frame_of_ours(kind, how):
    nothing = contextlib.contextmanager(lambda shape: (yield))
    interpose(kind, "crack", **({"around": nothing} if how == "around" else {"before": lambda shape: None}))
    if how == "twice":
        interpose(kind, "crack", around=nothing)
    with pytest.raises(ValueError) as caught:
        kind().crack()
    assert module.__file__ not in frames(caught.value) and contextlib.__file__ not in frames(caught.value)
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][1:] == ["crack"]


def test_an_error_keeps_its_cause_and_its_context(kind):
    def fail(shape):
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise RuntimeError("outer") from inner

    kind.scale = fail
    interpose(kind, "scale")
    with pytest.raises(RuntimeError) as caught:
        kind().scale()
    assert isinstance(caught.value.__cause__, KeyError) and caught.value.__context__ is caught.value.__cause__


def test_a_call_that_does_not_fit_is_the_callers_mistake(kind):
    interpose(kind, "scale")
    with pytest.raises(TypeError, match=r"scale\(\) got an unexpected keyword argument 'thrice'"):
        kind().scale(1, thrice=True)


def test_the_wrapper_has_the_name_and_the_signature_and_can_be_pickled():
    original, before = Square.scale, inspect.signature(Square.scale)
    try:
        wrapper = interpose(Square, "scale")
        assert wrapper is Square.scale and wrapper.__wrapped__ is original
        assert (wrapper.__name__, wrapper.__qualname__) == ("scale", "Shape.scale")
        assert wrapper.__doc__ == "Multiply." and wrapper.__module__ == __name__
        assert inspect.signature(wrapper) == before
    finally:
        del Square.scale
    plain, wrapper = json.dumps, interpose(json, "dumps")
    try:
        assert pickle.loads(pickle.dumps(wrapper)) is wrapper
    finally:
        json.dumps = plain


def test_a_method_of_a_base_is_wrapped_in_the_class_that_is_named_alone():
    seen = []
    interpose(Square, "scale", before=lambda shape, by: seen.append(type(shape)))
    try:
        assert (Shape().scale(1), Square().scale(1), seen) == (4, 4, [Square])
    finally:
        del Square.scale


def test_static_methods_and_class_methods_stay_what_they_are(kind):
    seen = []
    interpose(kind, "add", before=lambda *arguments: seen.append(arguments))
    interpose(kind, "made", before=lambda *arguments: seen.append(arguments))
    assert kind.add(1, 2) == kind().add(1, 2) == 3
    assert kind.made(3).sides == 3 and kind().made(5).sides == 5
    assert seen == [(1, 2), (1, 2), (kind, 3), (kind, 5)]


def test_what_a_generator_yields_goes_to_the_caller_untouched(kind):
    seen = []
    interpose(kind, "corners", after=lambda token, result: seen.append(type(result)))
    corners = kind(3).corners()
    assert inspect.isgenerator(corners) and list(corners) == [0, 1, 2] and seen == [types.GeneratorType]


def test_functions_of_c_and_constructors_are_wrapped_as_well(kind):
    import math

    seen, plain = [], math.hypot
    try:
        interpose(math, "hypot", before=lambda *sides: seen.append(sides))
        assert math.hypot(3, 4) == 5 and math.hypot.__name__ == "hypot"
    finally:
        math.hypot = plain
    interpose(kind, "__init__", before=lambda shape, sides: seen.append(sides))
    assert kind(7).sides == 7 and seen == [(3, 4), 7]


def test_the_callers_frame_is_the_second_above_before(kind):
    seen = []
    interpose(kind, "scale", before=lambda *_: seen.append(sys._getframe(2).f_code.co_name))
    kind().scale(1)
    assert seen == ["test_the_callers_frame_is_the_second_above_before"]


def test_around_yields_the_token_encloses_the_call_and_sees_its_error(kind):
    seen = []

    @contextlib.contextmanager
    def around(shape, *arguments):
        seen.append("enter")
        try:
            yield arguments
        except ValueError as error:
            seen.append(str(error))
            raise
        finally:
            seen.append("leave")

    interpose(kind, "scale", around=around, after=lambda token, result: seen.append((token, result)))
    interpose(kind, "crack", around=around, failed=lambda token, error: seen.append((token, type(error))))
    kind().scale(2)
    assert seen == ["enter", "leave", ((2,), 8)]
    seen.clear()
    with pytest.raises(ValueError):
        kind().crack()
    assert seen == ["enter", "cracked", "leave", ((), ValueError)]


def test_calls_of_several_threads_have_tokens_of_their_own(kind):
    barrier, seen = threading.Barrier(2), []
    kind.scale = lambda shape, by: (barrier.wait() and by) or by
    interpose(kind, "scale", before=lambda shape, by: by, after=lambda token, result: seen.append(token == result))
    threads = [threading.Thread(target=kind().scale, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True, True]


def test_a_name_that_is_not_there_is_an_error_and_nothing_is_wrapped(kind):
    with pytest.raises(AttributeError):
        interpose(kind, "volume")
    assert not hasattr(kind, "volume")
