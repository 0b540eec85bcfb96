"""The examples of CONTRIBUTING.md are whole: pasted into new files, each is found by its registry, and is well formed.

Method: the examples are written into a copy of the packages, and another interpreter asks every registry for them. The
faults, witnesses, oracles and scenarios that are dropped in are tried by `test_drop_in.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AGENT, PYTEST = "harness/breakrank_agent", "harness/breakrank"
PARSED = "[one.name for one in ast.parse(open('fixtures/programs/linear.py').read()).body if hasattr(one, 'name')]"
#: Each kind of part, by its folder: the line that asks its registry, and the name by which the example is found.
REGISTRIES = {
    f"{AGENT}/faults": ("from breakrank_agent.faults import all_faults as found", "renice"),
    f"{AGENT}/schedules": ("from breakrank_agent.schedules import all_policies as found", "alternating"),
    f"{AGENT}/protocol/frameworks": ("from breakrank_agent.protocol.frameworks import all_frameworks as found", "jax"),
    f"{AGENT}/hooks/python": (
        "from breakrank_agent.hooks import all_hooks as found",
        "breakrank_agent.hooks.python.collector",
    ),
    f"{PYTEST}/witnesses": ("from breakrank.witnesses import all_witnesses as found", "lowered_priority"),
    f"{PYTEST}/oracles": ("from breakrank.oracles import all_oracles as found", "pace"),
    f"{PYTEST}/runners": ("from breakrank.runners import all_runners as found", "traced"),
    "scenarios": ("from breakrank.plan.catalogue import load_scenarios as found", "reniced_rank"),
    "fixtures/programs": (f"import ast; found = lambda: {PARSED}", "averaged"),
}


def examples() -> dict[str, str]:
    """Return the examples by the path that their first line names."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return dict(re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def pasted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the tree with every example in its place."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in ("harness", "scenarios", "fixtures"):
        # With the bytecode, if there is any: several interpreters import it.
        shutil.copytree(ROOT / folder, tree / folder)
    for path, code in examples().items():
        assert not (tree / path).exists(), f"{path} is there already"
        (tree / path).write_text(code)
    # In the copy, `breakrank.scenarios` and `breakrank.fixtures` lie where they lie in the wheel.
    for folder in ("scenarios", "fixtures"):
        (tree / "harness" / "breakrank" / folder).symlink_to(tree / folder)
    return tree


@pytest.mark.parametrize("folder", REGISTRIES)
def test_an_example_is_found_by_its_registry(pasted, folder):
    line, name = REGISTRIES[folder]
    asked = f"{line}\nprint([getattr(one, '__name__', one) for one in found()])"
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env={**os.environ, "PYTHONPATH": str(pasted / "harness")},
        cwd=pasted,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-1000:]
    assert repr(name) in done.stdout


def test_each_kind_of_part_has_one_example():
    assert sorted(str(Path(path).parent) for path in examples()) == sorted(REGISTRIES)


def test_examples_have_the_form_of_all_other_files(pasted):
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--config", str(ROOT / "pyproject.toml"), *examples()],
            cwd=pasted,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-2000:]
