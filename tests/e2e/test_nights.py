"""Two nights of a real program, which is changed between them."""

from __future__ import annotations

import json

from breakrank.__main__ import main
from breakrank.memory.reading import read

SCENARIO = """
from breakrank import *

SCENARIO = Scenario(
    family="sync",
    job=Job(ranks=2, steps=2),
    cases=[Case("loop", "loop:train", SURVIVED), Case("other", "loop:other", SURVIVED)],
)
"""
PROGRAM = """
import os
import torch
import torch.distributed as dist

STEPS = int(os.environ["BREAKRANK_STEPS"])


def train(reduced={reduced}):
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.full((4, 4), 1.0 + int(os.environ["RANK"]))).sum().backward()
        for parameter in model.parameters():
            if reduced:
                dist.all_reduce(parameter.grad)
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


def other():
    train(reduced=True)
"""


def test_the_case_that_changed_is_named_and_the_others_are_not(tmp_path, monkeypatch, capfd):
    (tmp_path / "pytest.ini").write_text("[pytest]\nscenario_paths = mine\n")
    (tmp_path / "mine" / "programs").mkdir(parents=True)
    (tmp_path / "mine" / "looped.py").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    codes = []
    for reduced in (True, False):
        (tmp_path / "mine" / "programs" / "loop.py").write_text(PROGRAM.format(reduced=reduced))
        codes.append(main(["nightly", "--scenario=looped", "--", "-q"]))
    out = capfd.readouterr().out
    assert codes == [0, 1], out
    assert main(["diff", "--json"]) == 1
    (worse,) = json.loads(capfd.readouterr().out)["worse"]
    assert worse.startswith("looped::loop [process]: SURVIVED became SILENT (replicas: ")
    loop, other = sorted(read(tmp_path / ".breakrank").entries[2], key=lambda entry: entry.case)
    assert len({(one.stood, one.digest) for one in (loop, *loop.again)}) == 1 and len(loop.again) == 2
    assert (other.outcome, other.again) == ("SURVIVED", ())
