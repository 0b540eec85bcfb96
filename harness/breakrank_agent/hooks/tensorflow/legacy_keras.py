"""Keras 2, which TensorFlow loads if `TF_USE_LEGACY_KERAS` is set; its frames are not the user's."""

from __future__ import annotations

import os
import sys

from breakrank_agent.agent.agent import Agent

WAITS_FOR = "tf_keras"


def install(agent: Agent) -> None:
    """Have the lines on record be those of the user's code that calls it."""
    agent.sites.add_foreign(os.path.dirname(str(sys.modules[WAITS_FOR].__file__)))
