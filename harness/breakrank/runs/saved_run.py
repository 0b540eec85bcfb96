"""A run directory, read back and judged by what it holds, wherever it comes from."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from breakrank.causes import CAUSES
from breakrank.errors import BreakrankError
from breakrank.files.bounded import Folder
from breakrank.history.reader import History, read_history
from breakrank.judge.judge import judge
from breakrank.judge.run_digest import explain_difference
from breakrank.oracles import all_oracles
from breakrank.runners import all_runners
from breakrank.runs.provenance import read_meta
from breakrank.runs.retention import is_held
from breakrank.schemas.shape import shape
from breakrank.verdict import Outcome, Verdict
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.trigger import PlanError
from breakrank_agent.schedules import all_policies

#: Oracles that can say nothing where two undisturbed runs end differently.
NEEDS_SAME_RESULT = ("control",)
#: Of runs of one script that nobody disturbs: the oracle that is told of another run, since it cannot judge without.
#: Two such runs may differ, and neither is wrong for that. Ranks need not make equally many steps.
TOLD_OF_PEERS, NOT_AMONG_PEERS = ("checkpoint",), ("ends",)
#: The bounds of judging or explaining any directory: seconds of a core, and this share of the memory.
MOST_CPU_S, MOST_MEMORY = 900.0, 0.5


@dataclass(frozen=True)
class SavedRun:
    """A run directory, read back. `second` is the second control, which only a user's script has.

    If the plan asks for no control, `control` is another run of the same check-up. `reference` is the same training as
    one rank, if the plan's oracles ask for it.
    """

    folder: Path
    plan: Plan
    history: History
    control: History | None
    verdict: dict[str, Any] | None
    second: History | None = None
    reference: History | None = None


def load_run(folder: Path) -> SavedRun:
    """Read a run directory. Raises `BreakrankError`, in one line, if there is none, or it is damaged or newer.

    Nothing is executed and no link is followed. A history is read as far as it goes.
    """
    place = Folder(folder)
    plan = load_plan(place)
    history = read_history(folder, place)
    models = {
        name: read_history(folder / name, place) if place.holds_folder(name) else None
        for name in ("control", "control-again", "reference")
    }
    verdict = load_verdict(place)
    return SavedRun(folder, plan, history, models["control"], verdict, models["control-again"], models["reference"])


def load_plan(place: Folder) -> Plan:
    """Read the plan of a run directory. Raises `BreakrankError` for what is none, or names what we do not have."""
    data = place.read("plan.json", 64 << 20)
    if data is None:
        raise BreakrankError(f"{place.path} is no run directory: it has no plan.json")
    try:
        plan = Plan.loads(data.decode(), "plan.json")
    except (PlanError, UnicodeDecodeError) as error:
        raise BreakrankError(f"{place.path} cannot be read: {error}") from None
    _check_names(plan, place.path)
    return plan


def _check_names(plan: Plan, folder: Path) -> None:
    """Raise `BreakrankError` for a runner, a schedule, an oracle or data that we lack: the registries know them."""
    from breakrank.fixtures.data import DATASETS

    named = [("schedule", plan.schedule.policy, all_policies()), ("data", plan.data, DATASETS)]
    named.append(("runner", plan.runner, all_runners()))
    named += [("oracle", name, all_oracles()) for name in plan.oracles]
    for what, name, known in named:
        if name and name not in known:
            raise BreakrankError(
                f"{folder} cannot be read: plan.json: there is no {what} {name!r}; use one of {', '.join(known)}"
            )


def load_verdict(place: Folder) -> dict[str, Any] | None:
    """Return the saved verdict, None where there is none. Raises `BreakrankError` if it is damaged.

    Its fields are asked for when they are needed: older ones have fewer.
    """
    verdict = place.read_json("verdict.json")
    path = place.path / "verdict.json"
    if verdict is None:
        if "verdict.json" in place.names():
            raise BreakrankError(f"{path} is damaged: it is null")
        return None
    if not isinstance(verdict, dict):
        raise BreakrankError(f"{path} is damaged: it is no object")
    wrong = shape("verdict").wrong(verdict)
    if wrong and not wrong.startswith("it has no "):
        raise BreakrankError(f"{path} is damaged: {wrong}")
    unknown = [f["cause"] for f in verdict.get("findings", ()) if f["cause"] not in CAUSES]
    if unknown:
        raise BreakrankError(f"{path} is damaged: {unknown[0]!r} is none of the causes")
    return verdict


def programs_of(folder: Path) -> Path | None:
    """Return the folder that a saved run's programs came from, if it is still there. Raises `BreakrankError`."""
    named = read_meta(folder).get("programs")
    if not isinstance(named, str) or "\0" in named:
        return None
    programs = Path(named)
    return programs if programs.is_absolute() and programs.is_dir() else None


def judge_saved(saved: SavedRun, void: Sequence[str] = ()) -> Verdict:
    """Judge a run directory.

    A script whose two controls differ is not reproducible by itself: its result is then compared with nothing, and the
    verdict says from where on they differ. If judging itself fails, as over records that contradict each other, the
    verdict gives the reason and no findings.
    """
    try:
        return _judge(saved, void)
    except (BreakrankError, PlanError):
        raise
    except Exception as error:
        why = f"judging what was recorded raised {type(error).__name__}: {error}"
        return Verdict(outcome=Outcome.VOID, void=(*void, why))


def _judge(saved: SavedRun, void: Sequence[str]) -> Verdict:
    silent: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    if saved.control is not None and not saved.plan.control:
        peer, told, unasked = saved.control, TOLD_OF_PEERS, NOT_AMONG_PEERS
        return judge(saved.history, peer, saved.plan, void, saved.reference, unasked, told)
    if saved.control is not None and saved.second is not None:
        difference = explain_difference(saved.control, saved.second, results=True)
        if difference:
            silent = NEEDS_SAME_RESULT
            notes = (f"result not comparable: not reproducible by itself: {difference}",)
    verdict = judge(saved.history, saved.control, saved.plan, void, saved.reference, silent)
    return replace(verdict, notes=(*notes, *verdict.notes))


def why_unjudged(saved: SavedRun) -> str:
    """Say why a run has no verdict, empty if it has one: it is still running, or was cut short."""
    if saved.verdict is not None:
        return ""
    if is_held(saved.folder):
        return f"{saved.folder} is still running: this is judged by what has been recorded so far"
    return f"{saved.folder} was never judged: its run was cut short; this is judged by what had been recorded"


class _OutOfTime(BaseException):
    """Reading a run takes too long. It is no `Exception`, so that no oracle takes it for its own."""


@contextlib.contextmanager
def limits(folder: Path, cpu_s: float = MOST_CPU_S) -> Iterator[None]:
    """Bound what a directory from wherever it may be can cost: `cpu_s` seconds of a core, and half of the memory.

    Raises `BreakrankError` beyond. In another thread than the main one, only memory is bounded.
    """
    alone = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGVTALRM, _out_of_time) if alone else None
    memory = _limit_memory()
    try:
        if alone:
            signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
        yield
    except _OutOfTime:
        raise BreakrankError(f"{folder} takes more than {cpu_s:g} s to read and judge; it was given up") from None
    except MemoryError:
        raise BreakrankError(f"{folder} takes more than half of this machine's memory; it was given up") from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, memory)
        if alone:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)


def _out_of_time(number: int, frame: FrameType | None) -> None:
    raise _OutOfTime


def _limit_memory() -> tuple[int, int]:
    """Let this process take half of the machine's memory beyond what it has; return the limit that it had before."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    page = os.sysconf("SC_PAGE_SIZE")
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * page
    most = taken + int(os.sysconf("SC_PHYS_PAGES") * page * MOST_MEMORY)
    if before[0] == resource.RLIM_INFINITY or most < before[0]:
        resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    return before
