"""Street scenes grow from step to step, and a rank whose memory is limited runs out of it; scenes of one size fit.

Fragmentation is the smaller part of it: with each large block mapped by itself the memory is used up, too. oneDNN keeps
a primitive for each shape that comes; without that cache growing scenes take no more than scenes of the largest size.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults

#: DeepLab is that of transformers, and Pillow draws the scenes.
NEEDS = ("transformers", "PIL")

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "its CPU kernels run without oneDNN here, and a shape is traced anew: see leaky_layer"},
    job=Job(ranks=2, steps=5, data="streets_128"),
    strikes=[faults.LimitMemory(headroom_mb=135) @ at(rank=1, step=1, point="load")],
    cases=[
        Case("torch-growing", "street_memory:growing", needs=NEEDS, expect=DETECTED),
        Case(
            "torch-growing-mapped",
            "street_memory:growing",
            needs=NEEDS,
            environment={"MALLOC_MMAP_THRESHOLD_": "65536"},
            expect=DETECTED,
        ),
        Case(
            "torch-growing-uncached",
            "street_memory:growing",
            needs=NEEDS,
            environment={"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "0"},
            expect=SURVIVED,
        ),
        Case("torch-of-one-size", "street_memory:of_one_size", needs=NEEDS, expect=SURVIVED),
    ],
)
