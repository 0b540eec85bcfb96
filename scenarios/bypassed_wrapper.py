"""Training goes past the wrapper that reduces gradients: the inner module is called, or gets a layer afterwards.

Seen in the wild: jingyaogong/minimind#853, OpenTSLM/OpenTSLM#PR49 and kohya-ss/sd-scripts#PR989 (the inner module is
called, each rank trains alone, and one of them is saved: `torch-bypassing`), pytorch/pytorch#104336 and
pytorch/pytorch#12603 (parameters that the wrapper has lost sight of: `torch-late-head`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent
from breakrank.plan.scenario import DEFAULT_ORACLES

ONCE = [faults.BypassWrapper() @ at(rank="all", step=3, point="forward")]

SCENARIO = Scenario(
    family="sync",
    without={"tensorflow": "nothing wraps a model: the strategy's optimizer reduces"},
    job=Job(ranks=2, steps=8, data="digits"),
    oracles=(*DEFAULT_ORACLES, "reference"),
    on_scripts=[faults.BypassWrapper() @ at(rank="all", step=2, point="forward")],
    cases=[
        Case(
            "torch-bypassing",
            "wrapped:bypassing",
            control="wrapped:wrapped",
            expect=silent(oracle="replicas", step=3, cause="wrapper bypassed"),
        ),
        Case(
            "torch-late-head",
            "wrapped:late_head",
            control="wrapped:new_head",
            expect=silent(oracle="replicas", step=1, cause="parameter replaced"),
        ),
        Case(
            "torch-once",
            "wrapped:wrapped",
            strikes=ONCE,
            expect=silent(oracle="replicas", step=3, cause="wrapper bypassed"),
        ),
        Case("torch-once-comparing", "wrapped:comparing", strikes=ONCE, expect=DETECTED),
        Case("torch-wrapped", "wrapped:wrapped", control="wrapped:wrapped", expect=SURVIVED),
        Case("torch-new-head", "wrapped:new_head", control="wrapped:new_head", expect=SURVIVED),
    ],
)
