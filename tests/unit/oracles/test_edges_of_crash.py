"""Ranks that die of their own doing: which death is one, and what is said of the thread that died and of the others."""

from __future__ import annotations

from signal import SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGSYS, SIGTERM
from typing import Any

import pytest
from support.asking import ask
from support.golden import Golden

from breakrank.verdict import Finding


def thread(name: str, *frames: tuple[str, int, str], died: bool = False, waits: str = "", native: Any = ()) -> Any:
    """Return one thread of a crash."""
    return {"thread": name, "died": died, "frames": [[*f] for f in frames], "waits": waits, "native": [*native]}


DIED = thread("MainThread", ("/home/me/train.py", 3, "main"), ("/home/me/net.py", 8, "forward"), died=True)


def crashed(*threads: Any, signal: int = SIGSEGV, **said: Any) -> Finding:
    """Return the finding on a rank that died of a signal in its second step."""
    job = Golden().trains(1)
    job[1].enters("load").dies(signal)
    job[0].ends()
    if threads:
        said = {"text": "", "address": "", "unread": "", **said}
        job.says("crash", attempt=0, rank=1, threads=[*threads], **said)
    (finding,) = ask("crash", job.history())
    return finding


class TestWhichDeath:
    @pytest.mark.parametrize("signal", [SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS])
    def test_objects_to_a_signal_that_a_process_gets_for_its_own_doing(self, signal: int) -> None:
        found = crashed(signal=signal)
        assert (found.oracle, found.cause, found.ranks, found.step, found.attempt) == (
            *("crash", "killed by a signal"),
            *((1,), 2, 0),
        )
        assert found.evidence["signal"] == signal.name  # type: ignore[attr-defined]

    @pytest.mark.parametrize("signal", [SIGTERM, SIGKILL])
    def test_has_nothing_against_a_signal_that_somebody_sent(self, signal: int) -> None:
        job = Golden().trains(1)
        job[1].dies(signal)
        assert ask("crash", job.ended_by_us().history()) == []

    def test_objects_to_a_rank_that_was_killed_for_its_memory(self) -> None:
        job = Golden().trains(1)
        job[1].enters("load").dies(SIGKILL)
        job[0].dies(SIGKILL)
        job.says("enforced", attempt=0, rank=1, memory=2).says("enforced", attempt=0, rank=0, pids=3)
        (found,) = ask("crash", job.history())
        assert found == Finding("crash", "out of memory", (1,), 2, 0, (), {"oom_kill": 2})

    def test_has_nothing_against_a_rank_of_an_attempt_without_a_kill_for_memory(self) -> None:
        job = Golden().trains(1)
        job[1].dies(SIGKILL)
        job.ended_by_us().again().trains(1)
        job[1].dies(SIGTERM)
        job.says("enforced", attempt=1, rank=1, memory=1)
        assert ask("crash", job.ended_by_us().history()) == []

    def test_objects_to_each_rank_of_each_attempt_in_order(self) -> None:
        job = Golden().trains(1)
        job[1].dies(SIGSEGV)
        job.ended_by_us().again().trains(1)
        job[1].dies(SIGABRT)
        job[0].dies(SIGSEGV)
        assert [(f.attempt, f.ranks, f.evidence["signal"]) for f in ask("crash", job.history())] == [
            *((0, (1,), "SIGSEGV"), (1, (0,), "SIGSEGV"), (1, (1,), "SIGABRT")),
        ]


class TestWhatIsSaid:
    def test_without_stacks_no_line_is_known(self) -> None:
        found = crashed()
        assert found.places == ()
        assert found.evidence == {
            **{"signal": "SIGSEGV", "where": "where no Python line is known", "meanwhile": "", "site": ""},
            **{"native": [], "address": "", "others": [], "unread": ""},
        }

    def test_without_a_line_of_its_own_the_collective_that_it_was_in_is_named(self) -> None:
        job = Golden().trains(1)
        job[1].enters("collective", c=4, site="train.py:9").dies(SIGSEGV)
        job[0].ends()
        (found,) = ask("crash", job.history())
        assert found.evidence["where"] == "in all_reduce 4 (3×2 × float32, train.py:9)"
        assert (found.evidence["site"], found.places) == ("train.py:9", ("train.py:9",))

    def test_stacks_of_another_rank_or_attempt_are_not_its_own(self) -> None:
        job = Golden().trains(1)
        job[1].dies(SIGSEGV)
        job[0].ends()
        job.says("crash", attempt=0, rank=0, threads=[DIED], text="", address="", unread="")
        job.says("crash", attempt=1, rank=1, threads=[DIED], text="", address="", unread="")
        (found,) = ask("crash", job.history())
        assert found.evidence["where"] == "where no Python line is known"

    def test_names_the_innermost_line_and_its_function(self) -> None:
        found = crashed(DIED, address="0x10", unread="gdb is missing")
        assert found.evidence["where"] == "in forward (net.py:8)"
        assert (found.evidence["site"], found.places) == ("net.py:8", ("net.py:8",))
        assert (found.evidence["address"], found.evidence["unread"]) == ("0x10", "gdb is missing")
        assert found.sentence() == "rank 1 died of SIGSEGV at step 2 in forward (net.py:8)"

    def test_a_thread_that_died_in_no_line_of_the_users_has_none(self) -> None:
        found = crashed(thread("MainThread", died=True, native=["memcpy", "run"]))
        assert (found.evidence["where"], found.evidence["native"]) == (
            "where no Python line is known",
            ["memcpy", "run"],
        )
        assert found.places == ()

    def test_the_thread_that_died_is_found_wherever_it_stands(self) -> None:
        other = thread("loader", ("/home/me/data.py", 5, "fetch"))
        found = crashed(other, DIED)
        assert found.evidence["site"] == "net.py:8"
        assert found.places == ("net.py:8", "data.py:5")

    def test_only_the_innermost_native_calls_are_shown(self) -> None:
        native = [f"f{number}" for number in range(12)]
        died = {**DIED, "native": native}
        found = crashed(died, thread("loader", ("/home/me/data.py", 5, "fetch"), native=native))
        assert found.evidence["native"] == native[:8]
        assert found.evidence["others"] == [
            {"thread": "loader", "site": "data.py:5", "waits": "", "native": native[:8]}
        ]


class TestTheOthers:
    def test_a_thread_that_frees_memory_is_suspected_before_one_that_computes(self) -> None:
        computes = thread("a", ("a.py", 1, "compute"), native=["gemm"])
        frees = thread("b", ("b.py", 2, "evict"), native=["madvise", "munmap", "drop_it"])
        found = crashed(DIED, computes, frees)
        assert [other["thread"] for other in found.evidence["others"]] == ["b", "a"]
        assert found.evidence["meanwhile"] == ", while thread b was in evict (b.py:2) (munmap)"

    def test_of_its_calls_the_outermost_that_frees_is_named_whatever_its_letters(self) -> None:
        frees = thread("b", ("b.py", 2, "evict"), native=["munmap", "THFree_it", "loop"])
        assert crashed(DIED, frees).evidence["meanwhile"].endswith("(THFree_it)")

    def test_a_call_that_frees_far_outside_is_no_suspicion(self) -> None:
        far = thread("b", ("b.py", 2, "evict"), native=[*[f"f{n}" for n in range(8)], "munmap"])
        near = thread("c", ("c.py", 2, "evict"), native=[*[f"f{n}" for n in range(7)], "munmap"])
        found = crashed(DIED, far, near)
        assert [other["thread"] for other in found.evidence["others"]] == ["c", "b"]

    def test_one_that_waits_comes_last_and_is_told_of_nothing(self) -> None:
        waits = thread("a", ("a.py", 1, "get"), waits="a lock")
        found = crashed(DIED, waits, thread("b", ("b.py", 2, "run")))
        assert [other["thread"] for other in found.evidence["others"]] == ["b", "a"]
        assert found.places == ("net.py:8", "b.py:2")
        alone = crashed(DIED, waits)
        assert (alone.evidence["meanwhile"], alone.places) == ("", ("net.py:8",))
        assert alone.evidence["others"] == [{"thread": "a", "site": "a.py:1", "waits": "a lock", "native": []}]

    def test_one_that_is_in_no_line_of_the_users_is_left_out(self) -> None:
        found = crashed(DIED, thread("b", native=["munmap"]))
        assert (found.evidence["others"], found.evidence["meanwhile"]) == ([], "")

    def test_a_thread_without_a_name_has_no_number_in_the_sentence(self) -> None:
        found = crashed(DIED, thread("thread 140204", ("b.py", 2, "run")))
        assert found.evidence["meanwhile"] == ", while another thread was in run (b.py:2)"
