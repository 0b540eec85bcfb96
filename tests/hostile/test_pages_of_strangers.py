"""A page or a trace of a stranger's run is made, or refused in one line; all that the run says is only text there."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from support.lasting import soak
from support.mutants import ask, fingerprint, mutate
from support.plans import PROGRAMS, plan_of

from breakrank.runs.request import Request
from breakrank.timeline.page import page
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

#: Texts that would be code, or would move a terminal, if they were not only text.
NASTY = '</script><img src=x onerror="window.hit=1">{{ 7*7 }}<!--\x1b[31m\0\ud800\''
#: The number of seeds, and of those that `make test` tries.
SEEDS, FEW = 40, 12


@pytest.fixture(scope="session")
def sound_runs(bench):
    """Return a run with a strike and a restart, one that hung, and one under a schedule."""
    kill = faults.Kill() @ at(rank=1, step=2, point="collective")
    plans = [
        plan_of("small:train", kill, restarts=1),
        plan_of("stuck:skips_the_barrier", ranks=3, steps=5, deadline_s=60.0),
        plan_of("files:both_write", controlled="random", control="files:one_writes"),
    ]
    return [bench.run(Request(plan, programs=PROGRAMS)).folder for plan in plans]


@pytest.fixture
def folder(sound_runs, tmp_path):
    """Return a copy of the run that hung, which a test may tamper with."""
    return shutil.copytree(sound_runs[1], tmp_path / "run", ignore=shutil.ignore_patterns("work"))


def poison(value, name=""):
    """Return JSON in which each text that a stranger is free to choose is nasty."""
    if isinstance(value, dict):
        return {key: poison(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [poison(one, name) for one in value]
    free = ("op", "site", "text", "message", "dtype", "sentence", "reason", "group", "python", "torch", "why", "said")
    return NASTY if isinstance(value, str) and name in free else value


@pytest.mark.parametrize("command", ["timeline", "trace"])
@pytest.mark.parametrize("seeds", [range(FEW), soak(range(FEW, SEEDS))], ids=["few", "more"])
def test_a_run_that_was_tampered_with_is_drawn_or_refused_in_one_line(
    sound_runs, tmp_path, monkeypatch, command, seeds
):
    (tmp_path / "beside").mkdir()
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    drawn = 0
    for seed in seeds:
        folder = tmp_path / "beside" / "run"
        shutil.copytree(sound_runs[seed % len(sound_runs)], folder, ignore=shutil.ignore_patterns("work"))
        how = mutate(folder, seed)
        before = fingerprint(tmp_path / "beside")
        answer = ask(command, folder)
        assert answer.is_fine, (seed, how, answer)
        assert fingerprint(tmp_path / "beside") == before, (seed, how)
        drawn += answer.code == 0
        shutil.rmtree(folder)
    assert drawn > len(seeds) / 2, "most of what is damaged is still shown as far as it goes"


def test_texts_of_a_run_are_no_markup(folder):
    for path in [*folder.glob("*.jsonl"), *folder.glob("attempt-*/*.jsonl")]:
        lines = [json.dumps(poison(json.loads(line))) for line in path.read_text().splitlines()]
        path.write_text("\n".join(lines) + "\n")
    for name in ("verdict.json", "meta.json"):
        (folder / name).write_text(json.dumps(poison(json.loads((folder / name).read_text()))))
    (folder / "attempt-0" / "rank-0.err").write_bytes(NASTY.encode("utf-8", "surrogatepass"))
    text = page(folder)
    assert "<img" not in text and "&lt;img" in text
    assert text.count("</script>") == text.count("<script"), "no text of the run closes a script"
    assert "{{ 7*7 }}" in text, "the template does not evaluate what a run says"
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", text), "control characters are spelled out"


def test_a_page_lets_only_its_own_script_run_and_loads_nothing(folder):
    text = page(folder)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    assert "default-src &#39;none&#39;" in policy and "unsafe" not in policy
    without_namespaces = text.replace("http://www.w3.org", "")
    assert not re.search(r"(src|href)\s*=|https?://|@import|url\((?!#)", without_namespaces)


def lacks(folder):
    """Return the part of the page that says what the run lacks."""
    block = re.search(r'<div class="missing".*?</div>', page(folder), re.DOTALL)
    return block[0] if block else ""


def cut_last_line(folder):
    path = folder / "attempt-0" / "rank-0.jsonl"
    path.write_bytes(path.read_bytes()[:-25])


def damage_a_line(folder):
    path = folder / "attempt-0" / "rank-0.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:10], "{no json", *lines[10:]]) + "\n")


def invent_a_kind(folder):
    with open(folder / "attempt-0" / "rank-0.jsonl", "a") as file:
        file.write(json.dumps({"kind": "of_tomorrow", "seq": ["odd"], "t": "late", "step": None}) + "\n")


def remove(name):
    def go(folder):
        (folder / name).unlink()

    return go


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut_last_line, ""),
        (damage_a_line, "line 11 is damaged"),
        (invent_a_kind, ""),
        (remove("verdict.json"), "never judged"),
        (remove("plan.json"), "plan.json"),
        (remove("meta.json"), "meta.json is missing"),
        (remove("conductor.jsonl"), "conductor.jsonl names no ranks"),
        (remove("attempt-0/rank-1.jsonl"), "nothing is on record of rank 1"),
    ],
    ids=lambda one: getattr(one, "__name__", str(one)[:20]),
)
def test_a_page_says_what_a_run_lacks_and_shows_the_rest(folder, damage, words):
    damage(folder)
    said = lacks(folder)
    assert (words in said) if words else not said
    assert 'id="data-run"' in page(folder)


def test_events_of_kinds_that_nothing_draws_are_counted(folder):
    invent_a_kind(folder)
    assert "1 of_tomorrow" in page(folder)


def test_a_folder_that_is_no_run_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    answer = ask("timeline", tmp_path / "empty")
    assert answer.is_fine and answer.code == 4 and "no run directory" in answer.err
