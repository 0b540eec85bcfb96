"""The optimizers of Keras, where TensorFlow computes for it; steps and variables are told by TensorFlow's own hook."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
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

    def construct(*_: Any, **__: Any) -> None:
        training.constructed = True

    def applying(optimizer: Any, *_: Any, **__: Any) -> AbstractContextManager[None]:
        return training.step(optimizer)

    interpose(kind, "__init__", construct)
    interpose(kind, "apply", around=applying)
