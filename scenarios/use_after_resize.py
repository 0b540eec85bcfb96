"""The storage of a tensor is freed by one thread while another copies from it, as a shard that is evicted too early.

Seen in the wild: pytorch/pytorch#172127 (a storage that was shrunk under its tensor, and the segmentation fault).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, crashed

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "its tensors cannot be changed in place, and own their memory"},
    job=Job(ranks=2, steps=4, data="digits"),
    cases=[
        Case(
            "torch-evicting-while-mirrored",
            "freed:evicting_while_mirrored",
            control="freed:evicting_after_the_mirror",
            expect=crashed(oracle="crash", rank=1, step=3, cause="killed by a signal"),
        ),
        Case("torch-evicting-after-the-mirror", "freed:evicting_after_the_mirror", expect=SURVIVED),
    ],
)
