"""The training loop of a TensorFlow program: what is run as one piece, gradients, and the variables.

A `tf.function` is one piece: what it was traced from is in its graph, and nobody sees the operations run. So a step
that lies within a function is entered and left with the outermost call of it, and belongs to the optimizer, or else the
gradient, that was traced into it. `strategy.run` is such a piece where it runs operation by operation, in threads.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from threading import get_ident
from typing import Any, Callable, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.agent.model import NoHandles
from breakrank_agent.agent.optimizers import Optimizers, take_in
from breakrank_agent.agent.parameter_digest import in_parts, name_part
from breakrank_agent.hooks.tensorflow.beginnings import Beginnings
from breakrank_agent.hooks.tensorflow.own_frames import hide_frames
from breakrank_agent.hooks.tensorflow.traced import Traced, around, traced_into
from breakrank_agent.hooks.tensorflow.variables import (
    coarsest,
    components,
    is_finite,
    is_served,
    name_of,
    parts_apart,
    raw_bytes,
    sketch_of,
    summary_of_replica,
    words_of,
)
from breakrank_agent.protocol.bits import Words

WAITS_FOR = "tensorflow"

#: Set in the environment of a case: every function runs operation by operation, and each is seen.
EAGERLY = "BREAKRANK_RUN_FUNCTIONS_EAGERLY"


def install(agent: Agent) -> None:
    """Hook TensorFlow, which has just been imported."""
    import tensorflow as tf

    training = training_of(agent)
    agent.model.adopt(training, trains=False)
    agent.sites.add_foreign(os.path.dirname(tf.__file__))
    # It wraps TensorFlow's own iterators and decorators.
    for name in ("wrapt", "tensorflow_io_gcs_filesystem"):
        if name in sys.modules:
            agent.sites.add_foreign(os.path.dirname(str(sys.modules[name].__file__)))
    if agent.plan.pin:
        _pin(agent.plan.seed)
    if os.environ.get(EAGERLY) == "1":
        tf.config.run_functions_eagerly(True)
    agent.record("note", text=f"tensorflow {tf.__version__}", tensorflow=tf.__version__)
    hide_frames()
    _wrap_functions(training)
    _wrap_run(training)
    _wrap_tape(agent, training)
    if agent.plan.digests != "none":
        agent.on.step_end.append(training.name)


@functools.cache
def training_of(agent: Agent) -> Training:
    """Return what the rank trains; the hooks of TensorFlow and of Keras share it, whichever comes first."""
    return Training(agent)


def _pin(seed: int) -> None:
    """Have equal runs give equal bits."""
    import numpy
    import tensorflow as tf

    numpy.random.seed(seed % (1 << 32))
    tf.random.set_seed(seed)
    tf.config.experimental.enable_op_determinism()
    tf.config.threading.set_intra_op_parallelism_threads(1)


class Training(NoHandles):
    """The training of a rank: the variables of its optimizers, else those gradients were taken of.

    One of the optimizers counts the steps. A piece is the outermost call on the main thread of what runs as one.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.constructed = False
        #: The optimizers that have stepped, and how the record names the one that counts the steps.
        self.optimizers = Optimizers(_trained_by)
        self.steps_by = ""
        #: The variables that gradients were taken of, until an optimizer steps.
        self.sources: list[Any] = []
        #: True if the program itself assigns to those variables, and has no optimizer do that.
        self._by_hand = False
        self._named: list[int] = []
        self._beginnings = Beginnings(agent)
        #: The line that first assigned to a variable outside of any graph, by the variable's identity.
        self.assigned_at: dict[int, str] = {}
        #: Enter the collectives of a graph, and leave them again; set by the hook that sees them.
        self.issue: Callable[[Any, Any], Any] = _no_collectives
        self.land: Callable[..., None] = _no_collectives
        self._depth = 0
        self._applied = self._derived = False

    @property
    def ours(self) -> bool:
        """True if the current call is the agent's own, or another thread's: no point is made of either."""
        return self._agent.over or self._agent.busy or get_ident() != self._agent.main

    @contextlib.contextmanager
    def piece(self, traced: Optional[Traced] = None, graph: Any = None, captured: Any = ()) -> Iterator[None]:
        """Run a piece; the step ends with the outermost one in which the optimizer has stepped.

        If it is a function, it is the one of `graph`, with the values `captured` from around it.
        """
        if self._depth == 0:
            self._applied = self._derived = False
        if traced is not None and traced.derives:
            self._derived = True
        if traced is not None and graph is not None and self._depth == 0:
            for one in (known for known in self.optimizers.all() if id(known) in traced.optimizers):
                take_in(self._agent, self, one)
        if (self._derived and self._depth == 0) or (traced is not None and traced.optimizers):
            self._beginnings.look(self.parameters)
        if traced is not None and id(self.optimizers.first) in traced.optimizers:
            self._agent.reach("optimize")
            self._applied = True
        elif self._derived and self._depth == 0 and graph is not None:
            self._agent.reach("backward")
        issued = self.issue(graph, captured) if graph is not None else None
        self._depth += 1
        try:
            yield
        except BaseException as error:
            self.land(issued or (), error)
            raise
        else:
            self.land(issued or ())
        finally:
            self._depth -= 1
        if self._depth == 0 and self._applied:
            self.optimizers.keep()
            self._agent.close_step(self.steps_by)
        elif self._depth == 0 and self._derived and (self._by_hand or not self.constructed):
            # Without any optimizer that steps, a step is a backward pass.
            self._agent.close_step("backward")

    def step(self, optimizer: Any) -> AbstractContextManager[None]:
        """Return what an optimizer steps in: a piece of its own, or part of one, or the tracing of one."""
        from tensorflow.python.eager import context
        from tensorflow.python.framework import ops

        eager = context.executing_eagerly()
        take_in(self._agent, self, optimizer, steps=eager)
        if not eager:
            for traced in around(ops.get_default_graph()):
                traced.optimizers.add(id(optimizer))
        elif self._depth and get_ident() != self._agent.main:
            # A replica's thread; the piece waits for it.
            if optimizer is self.optimizers.first and not self._applied:
                self._reach_for_main("optimize")
                self._applied = True
        elif not self.ours:
            traced = Traced()
            traced.optimizers.add(id(optimizer))
            return self.piece(traced)
        return contextlib.nullcontext()

    def derive(self, sources: Any) -> AbstractContextManager[None]:
        """Return what gradients are taken in."""
        import tensorflow as tf
        from tensorflow.python.eager import context
        from tensorflow.python.framework import ops

        if not self.sources:
            self.sources = [one for one in tf.nest.flatten(sources) if hasattr(one, "assign")]
            if not self.constructed:
                self._agent.model.adopt(self)
        if not context.executing_eagerly():
            for traced in around(ops.get_default_graph()):
                traced.derives = True
        elif self._depth and get_ident() != self._agent.main:
            if not self._derived:
                self._reach_for_main("backward")
            self._derived = True
        elif not self.ours:
            self._agent.reach("backward")
            traced = Traced()
            traced.derives = True
            return self.piece(traced)
        return contextlib.nullcontext()

    def assign(self, variable: Any) -> None:
        """Take down that the program assigns to a variable; if no optimizer has stepped, it may train by that."""
        if self.constructed and not self._by_hand and self.optimizers.first is None:
            self._by_hand = any(one is variable for one in _bare(self.sources))
            if self._by_hand:
                self._agent.model.adopt(self)

    def _reach_for_main(self, point: str) -> None:
        """Enter a point in the thread of the first replica to come there: the main one waits for it."""
        self._agent.sequences.acting.add(get_ident())
        try:
            self._agent.reach(point)
        finally:
            self._agent.sequences.acting.discard(get_ident())

    def parameters(self) -> list[Any]:
        """Return the variables that are trained and lie in this process, in the optimizers' order."""
        variables: list[Any] = []
        for trained in [_trained_by(one) for one in self.optimizers.all()] or [_bare(self.sources)]:
            # One that an optimizer has twice is there twice: two layers have one memory.
            known = set(map(id, variables))
            variables += [one for one in trained if id(one) not in known]
        return [one for one in variables if not is_served(one)]

    def name(self) -> None:
        """Record the names of the parameters, if they are new."""
        parameters = self.parameters()
        here = [id(parameter) for parameter in parameters]
        if not parameters or here == self._named:
            return
        self._named, names, owners = here, [], self._owners()
        for part in in_parts(parameters):
            names.append(name_part(_name_among(part[0], owners), part))
        before = self._beginnings.of(parameters)
        self._agent.record("names", names=names, eps=coarsest(parameters), **({"before": before} if before else {}))

    def _owners(self) -> dict[int, tuple[str, int]]:
        """Return the name of each variable and the number of its optimizer, by identity; of several, the first."""
        owners: dict[int, tuple[str, int]] = {}
        for number, optimizer in enumerate(self.optimizers.all(), 1):
            for variable in _trained_by(optimizer):
                owners.setdefault(id(variable), (name_of(variable), number))
        return owners

    def buffers(self) -> list[tuple[str, memoryview]]:
        """Return (name, writable bytes) of every parameter here. Raises `RuntimeError` when there are none yet."""
        with self._agent.quietly():
            found = [
                (f"parameter {i}", raw_bytes(component))
                for i, variable in enumerate(self.parameters())
                for component in components(variable)
            ]
        if not found:
            raise RuntimeError("no optimizer has stepped yet, so no parameters are known")
        return found

    def gradients(self) -> list[tuple[str, memoryview]]:
        """Raise `RuntimeError`: gradients are values on their way, which nothing keeps."""
        raise RuntimeError("TensorFlow keeps no gradients between operations")

    def words(self, of: str) -> list[Words]:
        """Return the memory of variables. Raises `LookupError` when there is none; gradients are not kept."""
        known = {"parameters": self.parameters, "optimizer state": self._state}
        if of not in known:
            raise LookupError(f"TensorFlow keeps no {of} between operations")
        with self._agent.quietly():
            found = [words_of(of, here) for variable in known[of]() for here in components(variable)]
        if not found:
            raise LookupError(f"no {of} are known at this point")
        return found

    def _state(self) -> list[Any]:
        """Return the variables that optimizers keep for each parameter; a number alone, such as a count, is none."""
        kept = [v for one in self.optimizers.all() for v in _bare(getattr(one, "variables", ()))]
        return [v for v in kept if len(v.shape) and not is_served(v)]

    def summarize(self) -> dict[str, Any]:
        """Return the digest, the norm and the finiteness of the parameters, and of their parts; empty without any.

        As for torch; with several replicas in this process, `replicas` are the digests of each one's parameters, and
        those of all make the digest.
        """
        parameters = self.parameters()
        if not parameters:
            return {}
        norms = "norms" in self._agent.plan.evidence
        with self._agent.quietly():
            several = max(len(components(variable)) for variable in parameters)
            replicas = [summary_of_replica(parameters, number, norms) for number in range(several)]
        summary = dict(replicas[0])
        if several > 1:
            digests = [replica["params"] for replica in replicas]
            summary["replicas"] = digests
            summary["apart"] = parts_apart([replica["parts"] for replica in replicas])
            summary["params"] = hashlib.blake2b("".join(digests).encode(), digest_size=8).hexdigest()
            summary["finite"] = all(replica["finite"] for replica in replicas)
        if not summary["finite"]:
            summary.pop("norms", None)
        return summary

    def sketch(self) -> dict[str, Any]:
        """Return the sketches of the parameters' parts, each with all replicas in this process; empty without any."""
        with self._agent.quietly():
            return sketch_of(self.parameters())

    def is_finite(self) -> bool:
        """Return whether all parameters are finite, in each replica here."""
        with self._agent.quietly():
            return all(map(is_finite, (here for variable in self.parameters() for here in components(variable))))


def _trained_by(optimizer: Any) -> list[Any]:
    """Return the variables of one optimizer, in its order."""
    return _bare(getattr(optimizer, "_trainable_variables", None) or ())


def _bare(variables: Iterable[Any]) -> list[Any]:
    """Return the variables of TensorFlow that Keras keeps inside of its own."""
    return [getattr(one, "_value", one) for one in variables]


def _name_among(variable: Any, owners: Mapping[int, tuple[str, int]]) -> str:
    """Return the name of a variable, with the number of its optimizer if another one has a variable of that name."""
    name, owner = owners.get(id(variable), (name_of(variable), 0))
    several = any(known == name and other != owner for known, other in owners.values())
    return f"{name} (optimizer {owner})" if several else name


def _no_collectives(*_: Any) -> None:
    """See none."""


def line_here(agent: Agent) -> str:
    """Return the line of the user's code that is being run, or traced into a graph, as `file:line`; empty if none is.

    TensorFlow rewrites the functions that it traces; its own stack has the lines that they were written in.
    """
    from tensorflow.python.util import tf_stack

    lines = (agent.sites.at(frame.filename, frame.lineno) for frame in reversed(tf_stack.extract_stack()))
    return next(filter(None, lines), "")


def _wrap_functions(training: Training) -> None:
    from tensorflow.python.eager import context
    from tensorflow.python.eager.polymorphic_function import concrete_function

    def calling(function: Any, tensor_inputs: Any, captured_inputs: Any) -> AbstractContextManager[None]:
        if training.ours or not context.executing_eagerly():
            return contextlib.nullcontext()
        return training.piece(traced_into(function.graph), function.graph, captured_inputs)

    # While a function is traced, autograph writes the frames that it finds in an error into its message.
    interpose(concrete_function.ConcreteFunction, "_call_flat", around=calling)


def _wrap_run(training: Training) -> None:
    from tensorflow.python.distribute import distribute_lib
    from tensorflow.python.eager import context

    def running(*_: Any, **__: Any) -> AbstractContextManager[None]:
        seen = not training.ours and context.executing_eagerly()
        return training.piece() if seen else contextlib.nullcontext()

    interpose(distribute_lib.StrategyBase, "run", around=running)


def _wrap_tape(agent: Agent, training: Training) -> None:
    from tensorflow.python.eager import backprop, context

    def begin(_: Any) -> None:
        # A tape begins to record what gradients will be taken of: the forward pass.
        if not training.ours and context.executing_eagerly():
            agent.reach("forward")

    def taking(tape: Any, target: Any, sources: Any, *_: Any, **__: Any) -> AbstractContextManager[None]:
        return training.derive(sources)

    def fail(_: Any, error: BaseException) -> None:
        if isinstance(error, Exception) and not training.ours:
            agent.raised("backward", error)

    def passed(point: str) -> None:
        if not training.ours and context.executing_eagerly():
            agent.record("passed", point=point)

    interpose(backprop.GradientTape, "__enter__", begin)
    if "phases" not in agent.plan.evidence:
        interpose(backprop.GradientTape, "gradient", around=taking, failed=fail)
        return
    interpose(backprop.GradientTape, "__exit__", after=lambda *_: passed("forward"))
    interpose(backprop.GradientTape, "gradient", around=taking, after=lambda *_: passed("backward"), failed=fail)
