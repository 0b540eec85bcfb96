"""The private view of the user's folder: every run starts from the same files, and the folder is untouched.

An overlay in a mount namespace of its own where the kernel allows one (the script then sees the same path as ever),
else a copy up to a stated size. The files that a run writes are kept in the run directory, in `work`. Mounts
below the folder are in the view, too, protected where they can be; the runs are not.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from breakrank.errors import BreakrankError, CutShortError
from breakrank.history.reader import LINES
from breakrank.host.session import Session
from breakrank.runners import overlay

#: The most that is copied where there is no overlay.
COPY_MB = 1024
#: An empty folder that is there wherever Breakrank is: in a view, what ranks must reach of ours is mounted there.
PLACE = Path(overlay.__file__).parent / "place"
_RUNS_IN_FOLDER = (
    "the runs cannot be kept in the folder of the script itself ({folder}): name one below it, or another, with the "
    "ini option scenario_runs"
)


@dataclass(frozen=True)
class View:
    """The place in which the ranks run: their folder, and the process whose namespaces they join (0: none).

    `agent` is the agent's copy and `lines` this run's, which lie elsewhere in the view of a holder. `notes` say what is
    not as it would be without a view, or not protected.
    """

    folder: Path
    holder: int = 0
    notes: tuple[str, ...] = ()
    agent: Path = Path()
    lines: Path = Path()
    #: The numbers of mounts below the folder that have an overlay of their own, and their paths from there.
    overlaid: tuple[tuple[int, str], ...] = ()

    @property
    def carries(self) -> tuple[str, ...]:
        """The paths of mounts below the folder that are as private as the folder is."""
        return tuple(path for _, path in self.overlaid)

    def inside(self, path: Path) -> Path:
        """Return the path by which ranks reach the agent's copy, or what lies among the lines.

        Into containers what lies there goes open: its path is ours.
        """
        if self.lines == Path():
            return path
        if path == self.agent:
            return PLACE / path.name
        return PLACE / LINES / path.relative_to(self.lines)


@contextlib.contextmanager
def private_view(session: Session, folder: Path, run: Path, runs: Path, agent: Path) -> Iterator[View]:
    """Give ranks a private view of `folder`, and take it away when none of them is left (`make_view`)."""
    view = make_view(session, folder, run, runs, agent)
    if view.holder:
        session.kept.add(view.holder)
    try:
        yield view
    finally:
        if view.holder:
            session.kept.discard(view.holder)
            # Without a supervisor they end with the session, or with the next one's start.
            with contextlib.suppress(CutShortError):
                session.clear()
            close_view(view, run, runs)


def make_view(session: Session, folder: Path, run: Path, runs: Path, agent: Path) -> View:
    """Return a private view of `folder` that keeps in `work` of the run directory `run` what is written.

    The folder of the runs is not in it; the agent's copy and the run's lines are (`View.inside`).
    Raises `BreakrankError` if there is neither an overlay nor room for a copy, or the runs lie in the folder itself.
    """
    if os.path.realpath(runs) == os.path.realpath(folder):
        raise BreakrankError(_RUNS_IN_FOLDER.format(folder=folder))
    work, scratch, lines = run / "work", run / "work.overlay", run / LINES
    for made in (scratch, lines):
        made.mkdir(mode=0o700, exist_ok=True)
    order = overlay.Order(*map(str, (folder, work, scratch, runs, PLACE, agent, lines)))
    said, pid = _hold(session, order)
    if said.startswith("ready "):
        carried = json.loads(said.removeprefix("ready "))
        overlaid = tuple((number, path) for number, (path, _, how) in enumerate(carried) if how == overlay.OVERLAID)
        return View(folder, pid, tuple(filter(None, (_words(*one) for one in carried))), agent, lines, overlaid)
    _remove(scratch)
    why = said or "the process that holds it died"
    # The beginnings of a view are no part of a copy.
    shutil.rmtree(work, ignore_errors=True)
    left_out = copy_folder(folder, work, runs, f"no overlay: {why}")
    return View(work, 0, (f"no overlay here ({why}): the script ran in a copy of its folder", *left_out))


def _hold(session: Session, order: overlay.Order) -> tuple[str, int]:
    """Start the process that holds the view; return what it says, and its pid."""
    reader, writer = os.pipe()
    try:
        null = os.open(os.devnull, os.O_RDWR)
        command = [sys.executable, "-I", "-S", overlay.__file__, json.dumps(order._asdict())]
        pid = session.spawn(command, {"PATH": os.environ.get("PATH", "")}, Path("/"), [null, writer, null])
        os.close(null)
    finally:
        os.close(writer)
    with os.fdopen(reader) as pipe:
        return pipe.readline().strip(), pid


def unprotected(folder: Path) -> list[str]:
    """Say of mounts below a folder that no view can make private, before anything runs in one."""
    real = os.path.realpath(folder)
    found = overlay.mounts_below(real)
    for mount in found:
        os.close(mount.root)
    kernels = [mount for mount in found if mount.kind in overlay.KERNELS_OWN]
    return [_words(os.path.relpath(mount.path, real), mount.kind, overlay.AS_IT_IS) for mount in kernels]


def _words(path: str, kind: str, how: str) -> str:
    """Say of a mount below the folder what is not as it would be without a view; empty if nothing is."""
    if how == overlay.READ_ONLY:
        return f"what is mounted at {path} ({kind}) could only be read: it can be no layer of a private view"
    if how == overlay.AS_IT_IS:
        return f"what is mounted at {path} ({kind}) is not protected: the script has the machine's own"
    return ""


def close_view(view: View, run: Path, runs: Path) -> None:
    """Take away what a view was made of, when no process is in it any more, and lay in `work` all that was written."""
    work, scratch = run / "work", run / "work.overlay"
    left_out = os.path.relpath(os.path.realpath(runs), os.path.realpath(view.folder))
    with contextlib.suppress(OSError):
        # In place of the runs the upper layer has a device, unless the script has made something there.
        if stat.S_ISCHR((work / left_out).lstat().st_mode):
            (work / left_out).unlink()
    for number, path in view.overlaid:
        _merge(scratch / str(number) / "upper", work / path)
    _remove(scratch)


def _remove(scratch: Path) -> None:
    """Remove what overlays were made of. The kernel makes a folder in each that nobody but root may look into."""
    for made in scratch.glob("*/work/work"):
        with contextlib.suppress(OSError):
            made.chmod(0o700)
    shutil.rmtree(scratch, ignore_errors=True)


def _merge(upper: Path, work: Path) -> None:
    """Move what was written to a mount below the folder to its place in `work`."""
    written = sorted(upper.iterdir())
    if written:
        work.mkdir(parents=True, exist_ok=True)
    for path in written:
        path.rename(work / path.name)


def copied_view(folder: Path, run: Path, runs: Path, why: str) -> View:
    """Return a view that is a copy of `folder` in the run directory, `why` it is said why. Raises `BreakrankError`."""
    if os.path.realpath(runs) == os.path.realpath(folder):
        raise BreakrankError(_RUNS_IN_FOLDER.format(folder=folder))
    left_out = copy_folder(folder, run / "work", runs, why)
    return View(run / "work", 0, (f"the script ran in a copy of its folder: {why}", *left_out))


def copy_folder(folder: Path, work: Path, runs: Path, why: str) -> tuple[str, ...]:
    """Copy `folder`, without `runs`, into `work`: files, folders, and symlinks as they are; return what is left out.

    Raises `BreakrankError` if it is too large, with the reason `why`, or cannot be read.
    """
    without = {str(runs): "", **_not_to_copy(folder)}

    def left_out(where: str, names: list[str]) -> list[str]:
        paths = ((name, os.path.join(where, name)) for name in names)
        return [name for name, path in paths if path in without or not _is_copied(path)]

    size = _size(folder, left_out)
    if size > COPY_MB * 1_000_000:
        raise BreakrankError(
            f"{folder} cannot be kept untouched ({why}): {size // 1_000_000} MB are more than the {COPY_MB} MB that "
            "would be copied; run from a smaller folder, or with --scenario-in-place"
        )
    try:
        shutil.copytree(folder, work, symlinks=True, dirs_exist_ok=True, ignore=left_out)
    except shutil.Error as error:
        # Its one argument lists source, copy and reason of each file.
        source, _, reason = error.args[0][0]
        raise BreakrankError(f"{folder} cannot be copied ({why}): {source}: {reason}; make it readable") from None
    except OSError as error:
        raise BreakrankError(f"{folder} cannot be copied ({why}): {error.strerror}") from None
    return tuple(filter(None, without.values()))


def _not_to_copy(folder: Path) -> dict[str, str]:
    """Return what is mounted below a folder and holds no files of anybody's, by its path, with what is said of it."""
    found = {}
    real = os.path.realpath(folder)
    for mount in overlay.mounts_below(real):
        os.close(mount.root)
        if mount.kind in overlay.KERNELS_OWN:
            path = os.path.relpath(mount.path, real)
            found[str(folder / path)] = f"what is mounted at {path} ({mount.kind}) was not there: it cannot be copied"
    return found


def _size(folder: Path, left_out: Callable[[str, list[str]], list[str]]) -> int:
    """Return the bytes of the files in a folder that would be copied."""
    size = 0
    for where, folders, names in os.walk(folder):
        kept = set(folders + names) - set(left_out(where, folders + names))
        folders[:] = [name for name in folders if name in kept]
        with contextlib.suppress(OSError):
            size += sum(os.lstat(os.path.join(where, name)).st_size for name in names if name in kept)
    return size


def _is_copied(path: str) -> bool:
    """Return whether a copy of a folder has it: no pipe, no socket and no device, which are nobody's bytes."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        # It has gone since it was listed.
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
