"""Cases that got better or worse between two images."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakrank.cli import images
from breakrank.errors import BreakrankError
from breakrank.plan.build import Choices, make_plan
from breakrank.plan.catalogue import load_scenarios, select
from breakrank.report.compare import Comparison, Standing, Stood, key, load_standing
from breakrank.runs.request import Request
from breakrank.runs.result import Result
from breakrank.verdict import Outcome, Verdict

FINE, LOUD, QUIET = Stood("SURVIVED"), Stood("DETECTED", sentence="it raised"), Stood("SILENT", "race: lost update")
SKIPPED = Stood("", sentence="there is no torch")
VOID = Stood("VOID", sentence="the control failed")


def compare(old: dict[str, Stood], new: dict[str, Stood], **versions: tuple[str, str]) -> Comparison:
    """Return the comparison of two standings; `versions` are pairs of old and new."""
    return Comparison(
        Standing("old", "1", {name: pair[0] for name, pair in versions.items()}, old),
        Standing("new", "2", {name: pair[1] for name, pair in versions.items()}, new),
    )


def test_a_report_that_came_a_step_later_is_no_change():
    one, other = (Stood("DETECTED", f"report: RuntimeError, rank 0, step {step}") for step in (3, 4))
    assert kinds(compare({"a": one, "b": LOUD}, {"a": other, "b": one})) == set()


def kinds(comparison: Comparison) -> set[str]:
    return {kind for kind, lines in comparison.changes().items() if lines}


@pytest.mark.parametrize(
    ("old", "new", "kind", "status"),
    [
        (FINE, FINE, set(), 0),
        (FINE, LOUD, {"worse"}, 1),
        (LOUD, QUIET, {"worse"}, 1),
        (QUIET, LOUD, {"better"}, 0),
        (Stood("HUNG"), Stood("SILENT"), {"worse"}, 1),
        (QUIET, Stood("SILENT", "race: torn read"), {"changed"}, 0),
        (FINE, SKIPPED, {"gone"}, 2),
        (FINE, VOID, {"gone"}, 2),
        (VOID, FINE, {"new"}, 2),
        (SKIPPED, SKIPPED, set(), 2),
    ],
)
def test_a_case_got_worse_better_new_or_gone(old, new, kind, status):
    comparison = compare({"a": old}, {"a": new})
    assert kinds(comparison) == kind
    assert comparison.status == status


def test_what_got_worse_weighs_more_than_what_was_not_tested():
    assert compare({"a": FINE, "b": FINE, "c": FINE}, {"a": LOUD}).status == 1


def test_a_new_case_beside_tested_ones_is_no_reason_to_object():
    assert compare({"a": FINE}, {"a": FINE, "b": FINE}).status == 0


def test_nothing_compared_is_too_little():
    assert compare({}, {}).status == 2


def test_the_lines_name_the_versions_that_differ_and_only_those():
    lines = list(compare({"a": FINE}, {"a": LOUD}, torch=("2.12", "2.13"), python=("3.11", "3.11")).lines())
    assert lines[0] == "new against old: 1 of 1 cases tested on both"
    assert "  a: SURVIVED became DETECTED: it raised" in lines
    assert lines[-2:] == ["versions: torch 2.12 -> 2.13", "1 of 1 cases got worse"]


NO_TORCH = Stood("", sentence="there is no torch", lacks="torch")


def test_cases_of_a_framework_that_neither_image_has_are_left_out():
    comparison = compare({"a": FINE, "b": NO_TORCH, "c": NO_TORCH}, {"a": FINE, "b": NO_TORCH, "c": NO_TORCH})
    assert comparison.status == 0
    lines = list(comparison.lines())
    assert lines[:2] == [
        "new against old: 1 of 1 cases tested on both",
        "left out: 2 cases of torch, which neither image has",
    ]
    assert lines[-1] == "nothing got worse"


def test_cases_of_a_framework_that_one_image_has_lost_are_gone_and_those_of_one_that_it_has_gained_are_new():
    assert kinds(compare({"a": FINE}, {"a": NO_TORCH})) == {"gone"}
    assert kinds(compare({"a": NO_TORCH}, {"a": FINE})) == {"new"}
    assert compare({"a": FINE}, {"a": NO_TORCH}).status == 2


def test_what_only_one_image_has_is_said_apart():
    comparison = Comparison(
        Standing("old", "1", {"a": "1", "b": "2"}, {}), Standing("new", "2", {"b": "2", "c": "3"}, {})
    )
    lines = list(comparison.lines())
    assert lines[lines.index("versions: the same") :][1:3] == ["only in old: a 1", "only in new: c 3"]


def test_images_that_have_nothing_to_be_tested_are_not_validated():
    assert compare({"a": NO_TORCH}, {"a": NO_TORCH}).status == 2


def test_what_was_tested_on_neither_is_named_by_its_reason():
    gpu = Stood("", sentence="needs cuda")
    lines = list(
        compare({"a": FINE, "b": VOID, "c": gpu, "d": gpu}, {"a": FINE, "b": VOID, "c": gpu, "d": gpu}).lines()
    )
    assert lines[lines.index("not tested on either: 3") :][1:3] == ["  b: the control failed", "  c, d: needs cuda"]


def test_a_case_is_known_by_the_means_that_it_is_struck_by_and_its_runner():
    names = set()
    for name in ("partition::torch-by-hand", "cut_link::torch-by-hand"):
        ((scenario, case),) = select(load_scenarios(), [name])
        for runner in ("sandbox", "docker"):
            plan = make_plan(scenario, case, Choices(runner=runner, image="some" if runner == "docker" else ""))
            names.add(key("link", case.name, plan.mechanism))
    assert names == {
        f"link::torch-by-hand [{means}]"
        for means in ("partition, sandbox", "partition, docker", "cut_link, sandbox", "cut_link, docker")
    }


def test_a_standing_that_an_older_version_has_saved_is_none(tmp_path):
    Standing("some", "1", {}, {"a": FINE}).save(tmp_path)
    (saved,) = tmp_path.glob("standings/*.json")
    saved.write_text(saved.read_text().replace('"version": 2', '"version": 1'))
    with pytest.raises(BreakrankError, match="there is no run on some to compare with"):
        load_standing(tmp_path, "some")


def test_a_standing_is_saved_and_a_later_run_of_other_cases_adds_to_it(tmp_path):
    Standing("some/image:1", "1", {}, {"a": FINE}).save(tmp_path)
    Standing("some/image:1", "1", {}, {"b": LOUD}).save(tmp_path)
    assert load_standing(tmp_path, "some/image:1").cases == {"a": FINE, "b": LOUD}


def test_a_standing_of_an_image_that_was_built_anew_begins_from_nothing(tmp_path):
    Standing("some", "1", {}, {"a": FINE}).save(tmp_path)
    Standing("some", "2", {}, {"b": LOUD}).save(tmp_path)
    assert load_standing(tmp_path, "some").cases == {"b": LOUD}


class Failing:
    """A bench whose first run ends in an unforeseen error, and one of whose later runs is interrupted."""

    interrupted = 0

    def __init__(self, runs: Path) -> None:
        self._number = 0

    def __enter__(self) -> Failing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, request: Request) -> Result:
        self._number += 1
        if self._number == self.interrupted:
            raise KeyboardInterrupt
        if self._number == 1:
            raise ZeroDivisionError("nobody has thought of it")
        return Result(request.plan, Verdict(Outcome.SURVIVED), Path("run"), 1.0, request.record)


@pytest.fixture
def failing(monkeypatch) -> type[Failing]:
    monkeypatch.setattr(images, "missing_framework", lambda *_: "")
    monkeypatch.setattr(images, "missing_for", lambda *_: "")
    monkeypatch.setattr(images, "new_standing", lambda name: Standing(name, "1", {}))
    monkeypatch.setattr(images, "Bench", Failing)
    return Failing


def asked_of(runs):
    """Return a validation whose runs lie in a folder."""
    return images.Validation("new", "old", ["race_condition"], 0, runs, runs / "site")


def test_what_goes_wrong_with_one_case_ends_no_other_and_what_was_run_is_kept(failing, tmp_path, monkeypatch):
    monkeypatch.setattr(failing, "interrupted", 3)
    cases = select(load_scenarios(), ["baseline::torch-ddp", "killed_rank::torch-plain", "race_condition"])
    with pytest.raises(KeyboardInterrupt):
        images.stand(Standing("some", "1", {}), cases, asked_of(tmp_path))
    kept = load_standing(tmp_path, "some").cases
    assert [(stood.outcome, stood.sentence) for stood in kept.values()] == [
        ("", "an error of Breakrank's own: ZeroDivisionError: nobody has thought of it"),
        ("SURVIVED", "no rank reported and no oracle objects"),
    ]


def test_an_error_of_our_own_is_not_passed_over_though_no_image_is_worse(failing, tmp_path, capsys):
    assert images.validate(asked_of(tmp_path)) == 2
    assert "an error of Breakrank's own: ZeroDivisionError: nobody has thought of it" in capsys.readouterr().out


def test_an_image_that_was_never_run_cannot_be_compared_with(tmp_path):
    with pytest.raises(BreakrankError, match="there is no run on some to compare with"):
        load_standing(tmp_path, "some")
