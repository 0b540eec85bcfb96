"""The optimizers of Keras, where TensorFlow computes for it; steps and variables are told by TensorFlow's own hook."""

from __future__ import annotations

import functools
import os
from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.tracebacks import hide
from breakrank_agent.hooks.tensorflow.training import training_of

WAITS_FOR = "keras"


def install(agent: Agent) -> None:
    """Hook Keras 3, which has just been imported, if TensorFlow is its backend."""
    import keras

    if keras.config.backend() != "tensorflow":
        return
    from keras.src.optimizers import base_optimizer

    agent.sites.add_foreign(os.path.dirname(keras.__file__))
    training = training_of(agent)
    kind = base_optimizer.BaseOptimizer
    construct, apply = kind.__init__, kind.apply

    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        training.constructed = True
        construct(self, *args, **kwargs)

    @functools.wraps(apply)
    def applying(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            with training.step(self):
                return apply(self, *args, **kwargs)
        except BaseException as error:
            hide(error)
            raise

    kind.__init__, kind.apply = __init__, applying
