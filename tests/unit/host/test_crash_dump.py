"""Crash dumps are read, and the oracles `crash` and `files` judge golden histories."""

from __future__ import annotations

import subprocess
from pathlib import Path
from signal import SIGBUS, SIGKILL, SIGSEGV
from typing import Any

from support.asking import ask, objection
from support.golden import Golden

from breakrank.host.crash_dump import CrashDump, parse_crash_dump

SAID = """Fatal Python error: Segmentation fault

Current thread 0x00007f38425276c0 (most recent call first):
  File "/job/train.py", line 6 in copy
  File "/usr/lib/python3.11/threading.py", line 982 in run

Thread 0x00007f386c479b80 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 1139 in join
  File "/job/train.py", line 12 in <module>
  File "/runs/agent-1.zip/breakrank_agent/start/boot.py", line 49 in run_here

Thread 0x00007f386c000000 [worker] (most recent call first):
  <no Python frame>

Extension modules: torch._C (total: 1)
"""


def test_a_process_that_has_spoken_waits_to_be_heard(tmp_path: Path) -> None:
    words = CrashDump(tmp_path / "rank-0.words", tmp_path / "rank-0.crash")
    assert not words.waits
    words.path.write_bytes(SAID.encode())
    assert words.waits
    words.hear(lambda pid, number: None)
    assert not words.waits
    words.close()


def test_a_process_that_outlives_its_rank_is_not_stopped(tmp_path: Path) -> None:
    words = CrashDump(tmp_path / "rank-0.words", tmp_path / "rank-0.crash")
    with subprocess.Popen(["sleep", "1000"]) as process:
        words.stops(process.pid)
        assert words.event() is None
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        process.kill()
    words.close()
    assert state != "T"


def test_threads_are_read_from_what_faulthandler_says() -> None:
    died, other, bare = parse_crash_dump(SAID)
    assert (died.died, other.died, bare.died) == (True, False, False)
    assert [frame.where for frame in died.frames] == ["train.py:6", "threading.py:982"]
    assert [frame.function for frame in other.frames] == ["join", "<module>"]
    assert died.own and other.own and not bare.own and bare.frames == ()


def test_a_thread_says_what_it_waits_for() -> None:
    assert parse_crash_dump(SAID)[1].to_json() == {
        "thread": "thread 0x7f386c479b80",
        "died": False,
        "frames": [["/job/train.py", 12, "<module>"]],
        "waits": "join for a thread",
        "native": [],
    }


def thread(name: str, line: int, died: bool = False, waits: str = "", native: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a thread as the Conductor writes it."""
    frames = [["/job/train.py", 1, "main"], ["/job/train.py", line, name]]
    return {"thread": name, "died": died, "frames": frames, "waits": waits, "native": list(native)}


def dead(signal: int = SIGSEGV, **words: Any) -> Golden:
    """Return a job whose rank 1 dies in its second step."""
    job = Golden().trains(1)
    job[1].enters("forward").dies(signal)
    if words:
        job.says("crash", attempt=0, rank=1, **{"text": "", "address": "0x20", "unread": "", **words})
    return job


class TestCrash:
    def test_objects_to_a_rank_that_died_of_its_own_doing(self) -> None:
        job = dead(SIGBUS, threads=[thread("read", 7, died=True)])
        assert objection("crash", job.history()) == ("killed by a signal", (1,), 2)
        assert ask("crash", job.history())[0].sentence() == "rank 1 died of SIGBUS at step 2 in read (train.py:7)"

    def test_names_the_thread_that_freed_before_those_that_wait_or_work(self) -> None:
        threads = [
            thread("waiter", 3, waits="a queue"),
            thread("worker", 4, native=("at::add",)),
            thread("evict", 9, native=("__GI_munmap", "THPStorage_resize_", "method_vectorcall")),
            thread("read", 7, died=True),
        ]
        (finding,) = ask("crash", dead(threads=threads).history())
        assert finding.sentence().endswith(", while thread evict was in evict (train.py:9) (THPStorage_resize_)")
        assert finding.places == ("train.py:7", "train.py:9", "train.py:4")

    def test_gives_no_number_for_a_thread_without_a_name(self) -> None:
        threads = [{**thread("train", 9), "thread": "thread 0x7fa97deac2c0"}]
        (finding,) = ask("crash", dead(threads=threads).history())
        assert finding.sentence().endswith("Python line is known, while another thread was in train (train.py:9)")

    def test_says_so_where_nothing_is_known_of_the_line(self) -> None:
        (finding,) = ask("crash", dead().history())
        assert finding.sentence() == "rank 1 died of SIGSEGV at step 2 where no Python line is known"

    def test_objects_to_a_rank_that_the_kernel_killed_for_its_memory(self) -> None:
        job = dead(SIGKILL).says("enforced", attempt=0, rank=1, memory=1)
        assert objection("crash", job.history()) == ("out of memory", (1,), 2)

    def test_leaves_a_rank_alone_that_was_killed_while_its_group_had_memory_or_another_one_had_none(self) -> None:
        assert ask("crash", dead(SIGKILL).says("enforced", attempt=0, rank=1, cpu=7).history()) == []
        assert ask("crash", dead(SIGKILL).says("enforced", attempt=0, rank=0, memory=1).history()) == []

    def test_leaves_a_rank_alone_that_somebody_killed_or_that_died_when_its_work_was_over(self) -> None:
        assert ask("crash", dead(SIGKILL).history()) == []
        job = Golden().trains(3)
        job[0].ends()
        job[1].ends(status=-SIGSEGV)
        assert ask("crash", job.history()) == []


class TestFiles:
    def touched(self, *ops: tuple[int, str, str], barrier: bool = False) -> Golden:
        """Return a job whose ranks do these things (rank, op, mode) to one path, a barrier after each or none."""
        job = Golden()
        for number, (rank, op, mode) in enumerate(ops, 1):
            job[rank].accesses(mode, number, op, key="model.pt", site=f"train.py:{number}")
            for one in job.ranks if barrier else ():
                one.enters("collective", op="barrier", c=number)
        return job.ends_well()

    def test_objects_to_two_writes_that_nothing_orders(self) -> None:
        history = self.touched((0, "open", "w"), (1, "save", "w")).history()
        assert objection("files", history)[:2] == ("file race", (0, 1))
        assert ask("files", history)[0].places == ("train.py:1", "train.py:2")

    def test_has_no_objection_with_a_barrier_in_between(self) -> None:
        assert ask("files", self.touched((0, "open", "w"), (1, "save", "w"), barrier=True).history()) == []

    def test_two_renames_are_a_lesser_finding_and_a_rename_beside_a_read_none(self) -> None:
        renames = self.touched((0, "rename", "w"), (1, "rename", "w")).history()
        assert objection("files", renames)[0] == "rename race"
        assert ask("files", self.touched((0, "rename", "w"), (1, "open", "r")).history()) == []

    def test_leaves_a_file_alone_that_is_a_lock(self) -> None:
        assert ask("files", self.touched((0, "open", "w"), (0, "lock", "r"), (1, "open", "w")).history()) == []
