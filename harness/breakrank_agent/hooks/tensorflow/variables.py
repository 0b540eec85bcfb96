"""Variables of TensorFlow: the components of a distributed one, their names, bytes and digests."""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any

from breakrank_agent.agent.parameter_digest import NAME_LIMIT, in_parts, summary_of
from breakrank_agent.agent.sketch import Sketch
from breakrank_agent.protocol.bits import Words


def components(variable: Any) -> list[Any]:
    """Return the variables of this process that a distributed one is made of; of any other, itself."""
    return list(getattr(variable, "values", ())) or [variable]


def name_of(variable: Any) -> str:
    """Return the name of a variable of TensorFlow as its owner gave it, without the number of its output."""
    return str(getattr(variable, "name", "")).split(":")[0][:NAME_LIMIT] or "a variable"


def numbers_of(variable: Any) -> Any:
    """Return what a variable holds, as an array. Raises `TypeError` for one whose parts lie on several devices.

    TensorFlow's own error for that has all of the numbers in it.
    """
    import tensorflow as tf

    try:
        return variable.numpy()
    except tf.errors.UnimplementedError:
        raise TypeError(f"the parts of {name_of(variable)} lie on several devices") from None


def is_served(variable: Any) -> bool:
    """Return whether a variable lies in the process of a parameter server: to read it might wait for ever."""
    parts = getattr(variable, "variables", None) or [variable]
    return any("/job:ps/" in str(getattr(part, "device", "")) for part in parts)


def coarsest(parameters: list[Any]) -> float:
    """Return the distance from 1 to the next number in the dtype with the fewest digits; 0 without floating point."""
    import tensorflow as tf

    kinds = {tf.as_dtype(one.dtype) for one in parameters}
    return max((float(tf.experimental.numpy.finfo(kind).eps) for kind in kinds if kind.is_floating), default=0.0)


def summary_of_replica(parameters: list[Any], replica: int, norms: bool) -> dict[str, Any]:
    """Return the summary of one replica's parameters; what only one replica has, belongs to all."""
    import numpy

    parts, squares = [], []
    for part in in_parts(parameters):
        digest, square = hashlib.blake2b(digest_size=8), 0.0
        for variable in part:
            here = components(variable)
            array = numpy.ascontiguousarray(numbers_of(here[min(replica, len(here) - 1)]))
            digest.update(array.tobytes())
            if array.dtype.kind == "f":
                flat = array.reshape(-1)
                # Without a copy in double precision, whose memory would be new each time: 10 times as fast.
                square += float(numpy.einsum("i,i", flat, flat, dtype="float64"))
        parts.append(digest.digest())
        squares.append(square)
    return summary_of(parts, squares, norms)


def sketch_of(parameters: list[Any]) -> dict[str, Any]:
    """Return the sketches of the parts of the parameters, each with all components of its variables."""
    import numpy

    def numbers(variable: Any) -> Any:
        array = numpy.ascontiguousarray(numbers_of(variable))
        return (array.view(array.real.dtype) if array.dtype.kind == "c" else array).astype("float64").reshape(-1)

    sketch = Sketch(lambda signs: numpy.frombuffer(signs, "int8").astype("float64"))
    # Infinities of both signs are no news for the user: numpy would warn of their sum.
    with numpy.errstate(all="ignore"):
        for part in in_parts(parameters):
            sketch.add(numbers(component) for variable in part for component in components(variable))
        return sketch.facts()


def is_finite(variable: Any) -> bool:
    """Return whether all elements of a variable of this process are finite: their sum is, or none of them is not."""
    import numpy

    array = numbers_of(variable)
    if array.dtype.kind != "f":
        return True
    with numpy.errstate(all="ignore"):
        return bool(numpy.isfinite(array.sum())) or bool(numpy.isfinite(array).all())


def parts_apart(replicas: list[list[str]]) -> list[int]:
    """Return which parts are not the same in all replicas."""
    return [number for number, values in enumerate(zip(*replicas)) if len(set(values)) > 1]


def raw_bytes(variable: Any) -> memoryview:
    """Return a writable view of the bytes of a dense variable on a CPU, which what is read of it shares with it."""
    import numpy

    array = numpy.asarray(memoryview(variable.read_value()))
    if array.nbytes == 0:
        return memoryview(bytearray())
    return memoryview((ctypes.c_ubyte * array.nbytes).from_address(array.ctypes.data)).cast("B")


def words_of(name: str, variable: Any) -> Words:
    """Return the memory of a dense variable on a CPU."""
    return Words(
        name, raw_bytes(variable), str(variable.dtype.name), int(variable.shape[-1]) if len(variable.shape) else 1
    )
