"""Memory of a C library is taken at every step and never freed: no tensor and no object of Python shows it.

The heap is measured in a run of its own, as a census of what is alive would show in it; it settles in 40 steps.

Seen in the wild: pytorch/pytorch#7702 (gloo kept a buffer for each length of tensor that it had ever reduced) and
pytorch/pytorch#116923 (parameters that are averaged on the CPU, through copies).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "a leak of a C library is the same under any framework: tried with torch"},
    job=Job(ranks=2, steps=60, data="digits"),
    oracles=["ends", "progress", "finite", "replicas", "native_leak", "control"],
    cases=[
        Case(
            "torch-staging",
            "leaky:native_memory",
            control="leaky:native_memory_freed",
            expect=silent(oracle="native_leak", rank=0, step=41, cause="native leak"),
        ),
        Case("torch-staging-freed", "leaky:native_memory_freed", expect=SURVIVED),
        Case("torch-momentum", "leaky:momentum", expect=SURVIVED),
        Case("torch-cache-of-12", "leaky:cache_of_twelve", expect=SURVIVED),
        Case("torch-ring-buffer", "leaky:ring_buffer", expect=SURVIVED),
        Case("torch-varying-shapes", "leaky:varying_shapes", expect=SURVIVED),
    ],
)
