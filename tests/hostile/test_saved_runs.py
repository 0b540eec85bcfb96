"""A run directory from a stranger is data: it is shown and judged, or refused in one line, and nothing else happens."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct

import pytest
from support.mutants import LIMIT_S, ask, fingerprint, mutate
from support.plans import PROGRAMS, plan_of

from breakrank.errors import BreakrankError
from breakrank.files.bounded import MOST_FILE, Folder, parse, plain
from breakrank.history.reader import read_history
from breakrank.runs import retention
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.saved_run import limits, load_run
from breakrank_agent import faults
from breakrank_agent.protocol.log import DEFAULT_SIZE, HEADER_SIZE, LogWriter, create_log, encode
from breakrank_agent.protocol.trigger import at


@pytest.fixture(scope="session")
def sound_runs(bench):
    """Return two runs: one with a strike, its control and a restart, and one that hung."""
    kill = faults.Kill() @ at(rank=1, step=2, point="collective")
    plans = [plan_of("small:train", kill, restarts=1), plan_of("small:train", faults.Stop() @ at(rank=1, step=2))]
    return [bench.run(Request(plan, programs=PROGRAMS)).folder for plan in plans]


@pytest.fixture
def folder(sound_runs, tmp_path):
    """Return a copy of the run that was restarted, which a test may tamper with."""
    return shutil.copytree(sound_runs[0], tmp_path / "beside" / "run", ignore=shutil.ignore_patterns("work"))


def refused(folder, words=""):
    """Assert that both commands refuse a directory in one line that has these words."""
    for command in ("show", "judge"):
        answer = ask(command, folder)
        assert answer.is_fine and answer.code == 4, answer
        assert words in answer.err
    return True


def line(folder, number, change, name="attempt-0/rank-1.jsonl"):
    """Change the event in one line of a history."""
    lines = (folder / name).read_text().splitlines()
    event = json.loads(lines[number])
    change(event)
    lines[number] = json.dumps(event)
    (folder / name).write_text("\n".join(lines) + "\n")


def value(folder, name, **values):
    """Set fields of a file of JSON."""
    raw = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**raw, **values}))


def test_a_sound_run_is_shown_and_judged_as_ever_and_nothing_of_it_is_changed(sound_runs):
    for sound in sound_runs:
        before = fingerprint(sound)
        shown, judged = ask("show", sound), ask("judge", sound)
        assert (shown.code, judged.code) == (0, 0) and not shown.err + judged.err
        assert "this agrees with the saved verdict" in judged.out
        assert fingerprint(sound) == before


NAMES = ("plan.json", "verdict.json", "conductor.jsonl", "attempt-0/rank-1.jsonl", "control/conductor.jsonl")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["symlink", "pipe", "socket", "folder", "device", "huge"])
def test_what_is_no_file_of_a_run_is_refused_and_never_opened(folder, name, kind):
    path = folder / name
    kept = path.with_name("kept")
    path.rename(kept)
    if kind == "symlink":
        path.symlink_to(kept)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            # A path of a socket is short.
            os.chdir(path.parent)
            made.bind(path.name)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.touch()
        os.truncate(path, 100 << 30)
    assert refused(folder, str(path))


@pytest.mark.parametrize("name", ["attempt-0", "control"])
def test_a_folder_that_is_a_link_is_not_followed(folder, name):
    (folder / name).rename(folder.parent / "elsewhere")
    (folder / name).symlink_to(folder.parent / "elsewhere")
    assert refused(folder, "nothing is followed")


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 100_000, b"\xff\xfe\0", b"", b"null", b"{}", b"7"]
)
@pytest.mark.parametrize("name", ["plan.json", "verdict.json"])
def test_json_of_a_stranger_is_refused_in_one_line(folder, name, text):
    (folder / name).write_bytes(text)
    assert refused(folder)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"outcome": "FINE"}, {"outcome": 7}, {"findings": {}}, {"findings": [7]}, {"findings": [{}]}, {"notes": "x"}),
        *({"blame": []}, {"blame": {"ranks": ["x"], "reason": ""}}, {"abstained": []}, {"void": [1]}, {"digest": None}),
    ],
    ids=str,
)
def test_a_verdict_with_a_wrong_value_is_refused(folder, wrong):
    value(folder, "verdict.json", **wrong)
    assert refused(folder, "verdict.json is damaged")


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *(("step", wrong) for wrong in ("x", -1, None, [1], 1.5, True, 10**30)),
        *(("seq", wrong) for wrong in (7, None, ["main"], {})),
        *(("kind", wrong) for wrong in (7, None, ["point"], {})),
        *(("t", wrong) for wrong in ("now", None, [])),
        *(("n", wrong) for wrong in ("1", -1, None)),
    ],
)
def test_a_rank_whose_record_is_wrong_is_damaged_and_the_run_is_void(folder, field, wrong):
    line(folder, 4, lambda event: event.update({field: wrong}))
    shown, judged = ask("show", folder), ask("judge", folder)
    assert shown.is_fine and shown.code == 0
    assert judged.is_fine and judged.code == 1
    assert "VOID: the record of rank 1 is damaged: " in judged.out and "rank-1.jsonl, line 5" in judged.out


@pytest.mark.parametrize("name", ["conductor.jsonl", "attempt-0/rank-0.jsonl"])
@pytest.mark.parametrize(
    "text", ["{oops}", "[1]", "7", "null", '{"a": 1}', "[" * 100_000, '{"kind": "point"}', "\0" * 50]
)
def test_a_line_that_is_no_event_ends_what_is_read_of_its_file(folder, name, text):
    lines = (folder / name).read_text().splitlines()
    (folder / name).write_text(
        "\n".join([*lines[:3], text if text != '{"kind": "point"}' else '{"kind":7}', *lines[3:]])
    )
    judged = ask("judge", folder)
    assert judged.is_fine and judged.code == 1 and "VOID" in judged.out
    damaged = load_run(folder).history.seen("damaged")
    assert [event["rank"] for event in damaged] == [None if name == "conductor.jsonl" else 0]


@pytest.mark.parametrize("count", [10**9, 2**62])
def test_a_world_of_any_size_costs_nothing(folder, count):
    value(folder, "plan.json", runner="join", program="", command=["torchrun", "train.py"], ranks=0, control="")
    line(folder, 0, lambda event: event.update(world=count))
    judged = ask("judge", folder)
    assert judged.is_fine and judged.code == 1 and "damaged" in judged.out


@pytest.mark.parametrize(("attempt", "rank"), [(0, 10**9), (10**12, 0), (0, -1), ("../..", 0), (0, "../../x")])
def test_a_rank_or_attempt_that_never_was_leads_nowhere(folder, attempt, rank):
    line(folder, 0, lambda event: event.update(attempt=attempt, rank=rank), "conductor.jsonl")
    for command in ("show", "judge"):
        assert ask(command, folder).is_fine


def test_records_that_contradict_each_other_are_void_and_no_traceback(folder):
    """Each event is valid, but the rank's last step lacks the point that its reader looks for."""
    lines = (folder / "attempt-0/rank-0.jsonl").read_text().splitlines()
    cut = {"kind": "point", "n": 99, "seq": "main", "step": 9, "t": 1.0, "cut": "all"}
    (folder / "attempt-0/rank-0.jsonl").write_text("\n".join([*lines, json.dumps(cut)]) + "\n")
    judged, shown = ask("judge", folder), ask("show", folder)
    assert judged.is_fine and judged.code == 1 and "VOID" in judged.out
    assert shown.is_fine and shown.code == 0


def test_what_a_run_says_moves_no_terminal(folder):
    evil = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\nreplay:\n    rm -rf\x9b31m"
    value(folder, "verdict.json", sentence=evil, notes=[evil], reported=[evil], abstained={evil: evil}, void=[])
    line(folder, -1, lambda event: event.update(message=evil), "attempt-0/rank-0.jsonl")
    for path in folder.glob("attempt-*/rank-*.err"):
        path.write_text(f"{evil}\n")
    answer = ask("show", folder)
    assert answer.is_fine and answer.code == 0
    assert "\u202e" not in answer.out and "\n    rm -rf" not in answer.out
    assert "\\x1b[2J" in answer.out


def test_a_folder_name_moves_no_terminal(folder):
    other = folder.with_name("x\x1b[2J\n")
    folder.rename(other)
    (other / "plan.json").unlink()
    assert refused(other)


def test_what_may_not_be_read_is_said(folder, monkeypatch):
    """The superuser may read everything, so a stand-in gives the kernel's answer."""

    stat = os.stat

    def deny(asked, *rest, **how):
        if "dir_fd" in how or str(asked).startswith(str(folder)):
            raise PermissionError(13, "Permission denied")
        return stat(asked, *rest, **how)

    path = folder / "plan.json"
    path.chmod(0)
    if os.geteuid() == 0:
        monkeypatch.setattr("breakrank.files.bounded.os.stat", deny)
    assert refused(folder, "plan.json cannot be read: Permission denied")


def leave_log(folder, *events):
    """Leave a rank's records in its log, as if nobody had drained it; return the path."""
    path = folder / "lines" / "attempt-0" / "rank-0.log"
    path.parent.mkdir(parents=True)
    create_log(str(path))
    writer = LogWriter(str(path))
    for event in events:
        writer.write(encode(event))
    return path


TOLD = {"kind": "told", "n": 900, "seq": "main", "step": 1, "t": 1.0, "name": "loss", "values": {"loss": 1.0}}


def test_what_a_log_still_holds_is_read_and_the_log_is_left_as_it_is(folder):
    path = leave_log(folder, TOLD)
    path.chmod(0o400)
    before = path.read_bytes()
    assert read_history(folder).ranks[0, 0].events[-1] == TOLD
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("at_byte", "data"),
    [
        *((16, struct.pack("<Q", head)) for head in (2**63, 2**64 - 1, 7, DEFAULT_SIZE * 4)),
        *((24, struct.pack("<Q", tail)) for tail in (2**64 - 1, 8 * DEFAULT_SIZE)),
        *((12, struct.pack("<I", size)) for size in (0, 2**32 - 1)),
        *((HEADER_SIZE, data) for data in (b"\xff" * 64, b"\0" * 64, struct.pack("<IHH", 44, 5, 60000) + b"\0" * 40)),
        (0, b"NOTALOG!"),
    ],
)
def test_a_damaged_log_is_the_damaged_record_of_its_rank(folder, at_byte, data):
    path = leave_log(folder, TOLD)
    with path.open("r+b") as file:
        file.seek(at_byte)
        file.write(data)
    judged = ask("judge", folder)
    assert judged.is_fine and judged.code == 1 and "the record of rank 0 is damaged" in judged.out


@pytest.mark.parametrize("size", [0, 10, HEADER_SIZE, DEFAULT_SIZE])
def test_a_log_that_was_cut_is_the_damaged_record_of_its_rank(folder, size):
    os.truncate(leave_log(folder, TOLD), size)
    judged = ask("judge", folder)
    assert judged.is_fine and "the record of rank 0 is damaged" in judged.out


def cut_short(folder, *, lines):
    """Leave a run as if it had been killed: without a verdict, and of each history the first lines and a half."""
    (folder / "verdict.json").unlink()
    for path in folder.glob("*.jsonl"):
        kept = path.read_bytes().splitlines(keepends=True)[:lines]
        path.write_bytes(b"".join(kept) + b'{"kind": "spaw')


@pytest.mark.parametrize("lines", [0, 1, 2, 4, 1000])
def test_a_run_that_was_cut_short_is_shown_and_judged_as_far_as_it_goes(folder, lines):
    cut_short(folder, lines=lines)
    shown, judged = ask("show", folder), ask("judge", folder)
    assert (shown.code, judged.code) == (0, 0)
    for answer in (shown, judged):
        assert "was never judged: its run was cut short" in answer.err and answer.err.count("\n") == 1
    assert ("VOID: " in judged.out) == (lines < 1000)
    assert ("test::small-train: " in shown.out and "what the ranks did" in shown.out) or not lines


def test_a_run_without_any_history_is_shown_and_judged(folder):
    (folder / "verdict.json").unlink()
    for name in ("attempt-0", "attempt-1", "control"):
        shutil.rmtree(folder / name)
    (folder / "conductor.jsonl").unlink()
    judged = ask("judge", folder)
    assert judged.code == 0 and "VOID: no rank was started" in judged.out
    assert ask("show", folder).code == 0


def test_a_run_that_still_runs_is_said_to(folder):
    (folder / "verdict.json").unlink()
    held = retention.hold(folder)
    assert "is still running" in ask("judge", folder).err
    os.close(held)
    assert "cut short" in ask("judge", folder).err


def test_a_damaged_record_of_the_control_is_void(folder):
    line(folder, 4, lambda event: event.update(step="x"), "control/attempt-0/rank-1.jsonl")
    judged = ask("judge", folder)
    assert judged.is_fine and judged.code == 1 and "VOID: the record of rank 1 of the control is damaged" in judged.out


def test_too_much_in_all_is_refused(folder, monkeypatch):
    monkeypatch.setattr("breakrank.files.bounded.MOST_IN_ALL", 1000)
    assert refused(folder, "MB of records that are read")


def test_what_takes_too_long_is_given_up_in_one_line(folder):
    with pytest.raises(BreakrankError, match="was given up"), limits(folder, cpu_s=0.2):
        while True:
            pass


def test_what_takes_too_much_memory_is_given_up_in_one_line(folder):
    with pytest.raises(BreakrankError, match="half of this machine's memory"), limits(folder):
        bytearray(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    assert ask("show", folder).code == 0


def test_some_mutants_are_answered_and_nothing_outside_is_changed(sound_runs, tmp_path):
    for seed in range(60):
        folder = tmp_path / "beside" / "run"
        shutil.copytree(sound_runs[seed % 2], folder, ignore=shutil.ignore_patterns("work"))
        how = mutate(folder, seed)
        before = fingerprint(tmp_path)
        for command in ("show", "judge"):
            answer = ask(command, folder, LIMIT_S)
            assert answer.is_fine, (seed, how, command, answer)
        assert fingerprint(tmp_path) == before, (seed, how)
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    "data", [b"[" * 65 + b"]" * 65, b"18446744073709551616", b"-" + b"9" * 400, b"\xff", b"[1,]", b""]
)
def test_json_that_is_deep_or_large_is_a_value_error(data):
    with pytest.raises(ValueError):
        parse(data)


@pytest.mark.parametrize("data", [b"[" * 60 + b"]" * 60, b"18446744073709551615", b'{"a": [1.5, null, "x"]}'])
def test_sound_json_is_read(data):
    assert parse(data) == json.loads(data)


def test_a_text_for_a_terminal_is_one_printable_line():
    assert plain("loss 0.5 é × 日本") == "loss 0.5 é × 日本"
    assert plain("a\nb\x1b[0m\x9b\u202e\ud800") == "a\\nb\\x1b[0m\\x9b\\u202e\\ud800"


def test_a_file_of_any_size_has_a_tail(tmp_path):
    (tmp_path / "out").write_bytes(b"last")
    assert Folder(tmp_path).tail("out", 2) == b"st"
    os.truncate(tmp_path / "out", MOST_FILE * 4)
    assert Folder(tmp_path).tail("out", 10) == b"\0" * 10
    assert Folder(tmp_path).tail("nowhere", 10) == b""


class TestRoom:
    """Runs make room for later ones."""

    @pytest.fixture
    def runs(self, sound_runs, tmp_path):
        """Return a folder of three runs, judged, cut short and still held, beside folders that are no runs."""
        folder = tmp_path / "runs"
        for number in (1, 2, 3):
            made = shutil.copytree(sound_runs[0], folder / f"test-small-train-s0-{number:04d}")
            (made / "work" / "weights").write_bytes(b"x" * 2_000_000)
        (folder / "test-small-train-s0-0002" / "verdict.json").unlink()
        shutil.copytree(sound_runs[0], folder / "mine-by-another-name")
        (folder / "mine").mkdir()
        (folder / "mine" / "plan.json").write_text("{}")
        (folder / "test-small-train-s0-0009").symlink_to(folder / "mine-by-another-name")
        return folder

    def test_those_that_were_cut_short_go_like_others_and_one_that_runs_stays(self, runs):
        held = retention.hold(runs / "test-small-train-s0-0003")
        left = {run.folder.name for run in retention.finished_runs(runs)}
        assert left == {"test-small-train-s0-0001", "test-small-train-s0-0002"}
        retention.make_room(runs, 0)
        assert sorted(os.listdir(runs)) == [
            *("mine", "mine-by-another-name", "test-small-train-s0-0003", "test-small-train-s0-0009"),
        ]
        os.close(held)
        retention.make_room(runs, 0)
        assert not (runs / "test-small-train-s0-0003").exists()
        assert (runs / "mine-by-another-name" / "plan.json").exists()

    def test_the_oldest_go_first_and_only_as_many_as_must(self, runs):
        for number, name in enumerate(("0002", "0003", "0001"), 1):
            for word in ("verdict.json", "conductor.jsonl"):
                path = runs / f"test-small-train-s0-{name}" / word
                if path.exists():
                    os.utime(path, (number, number))
        retention.make_room(runs, 5)
        assert {run.folder.name[-4:] for run in retention.finished_runs(runs)} == {"0003", "0001"}

    def test_a_file_with_holes_takes_only_what_is_there(self, runs):
        os.truncate(runs / "test-small-train-s0-0001" / "work" / "weights", 100 << 30)
        sizes = {run.folder.name[-4:]: run.size for run in retention.finished_runs(runs)}
        assert sizes["0001"] < 10_000_000

    def test_what_a_link_in_a_run_leads_to_stays(self, runs):
        kept = runs.parent / "kept"
        kept.mkdir()
        (kept / "data").write_text("mine")
        (runs / "test-small-train-s0-0001" / "work" / "data").symlink_to(kept)
        retention.make_room(runs, 0)
        assert (kept / "data").read_text() == "mine"

    def test_a_bench_holds_the_run_that_it_makes(self, tmp_path):
        with Bench(tmp_path / "runs", cold=True) as bench:
            folder = bench._new_folder(plan_of("small:train"), PROGRAMS)
            assert retention.is_held(folder)
        assert not retention.is_held(folder)
