"""Something of every step is kept for good: activations, graphs, hooks, caches, groups, files, threads.

Seen in the wild: BatsResearch/labelmodels#4 (the losses of an epoch summed as tensors, each with its graph, until the
process was gone without an exception: `torch-graph`), pytorch/pytorch#11201 (descriptors kept until there are no more:
`torch-descriptors`), tensorflow/tensorflow#62854, tensorflow/tensorflow#37057 and tensorflow/tensorflow#42616
(functions traced anew, and graphs that grow: `tf-retrace`).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

#: Three steps are left to warming up; from the fourth on it grows.
LEAKS = silent(oracle="leak", rank=0, step=4, cause="leak")


def leak(name: str, program: str, cure: str) -> Case:
    """Return the case of a program that leaks; its control is the twin with the cure."""
    return Case(f"torch-{name}", f"leaky:{program}", control=f"leaky:{cure}", expect=LEAKS)


def sound(name: str, program: str) -> Case:
    """Return the case of a program that keeps only what it needs."""
    return Case(f"torch-{name}", f"leaky:{program}", expect=SURVIVED)


def tf_leak(name: str, program: str, cure: str) -> Case:
    """Return the case of a TensorFlow program that leaks."""
    control = f"leaky_keras:{cure}"
    return Case(f"tf-{name}", f"leaky_keras:{program}", framework="tensorflow", control=control, expect=LEAKS)


def tf_sound(name: str, program: str) -> Case:
    """Return the case of a TensorFlow program that keeps only what it needs."""
    return Case(f"tf-{name}", f"leaky_keras:{program}", framework="tensorflow", expect=SURVIVED)


SCENARIO = Scenario(
    family="memory",
    job=Job(ranks=2, steps=20, data="digits"),
    oracles=["ends", "progress", "finite", "replicas", "leak", "control"],
    cases=[
        leak("activations", "kept_activations", cure="cleared_activations"),
        leak("graph", "kept_graph", cure="summed_numbers"),
        leak("validation", "kept_validation", cure="validated"),
        leak("hook", "hook_per_step", cure="hook_removed"),
        leak("cache", "unbounded_cache", cure="cache_of_seven"),
        leak("group", "group_per_step", cure="group_destroyed"),
        leak("descriptors", "descriptors", cure="closed_files"),
        leak("threads", "threads", cure="joined_threads"),
        sound("activations-cleared", "cleared_activations"),
        sound("graph-detached", "summed_numbers"),
        sound("validation-detached", "validated"),
        sound("hook-removed", "hook_removed"),
        sound("cache-of-7", "cache_of_seven"),
        sound("cache-of-12", "cache_of_twelve"),
        sound("group-destroyed", "group_destroyed"),
        sound("descriptors-closed", "closed_files"),
        sound("threads-joined", "joined_threads"),
        sound("momentum", "momentum"),
        sound("moving-average", "moving_average"),
        sound("ring-buffer", "ring_buffer"),
        sound("varying-shapes", "varying_shapes"),
        sound("big-attribute", "big_attribute"),
        tf_leak("activations", "kept_activations", cure="cleared_activations"),
        tf_leak("retrace", "retraced", cure="traced_once"),
        tf_leak("variables", "variable_per_step", cure="variable_reset"),
        tf_sound("activations-cleared", "cleared_activations"),
        tf_sound("traced-once", "traced_once"),
        tf_sound("variable-reset", "variable_reset"),
        tf_sound("moving-average", "moving_average"),
    ],
)
