"""The system calls of one rank that change files or bring them to disk, told to a journal before they are done."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import select
from collections.abc import Iterator

from breakrank.host.disk_journal import DiskJournal
from breakrank_agent.kernel.rooted import OutsideError, WorkingFolder, opened
from breakrank_agent.kernel.seccomp import Notice, let_go, receive

#: The places, among the arguments of each call, of each path that it changes, and of the folder it is relative to.
_NAMES: dict[str, tuple[tuple[int, int | None], ...]] = {
    "rename": ((0, None), (1, None)),
    "renameat": ((1, 0), (3, 2)),
    "renameat2": ((1, 0), (3, 2)),
    "unlink": ((0, None),),
    "unlinkat": ((1, 0),),
    "rmdir": ((0, None),),
    "mkdir": ((0, None),),
    "mkdirat": ((1, 0),),
    "link": ((1, None),),
    "linkat": ((3, 2),),
    "symlink": ((1, None),),
    "symlinkat": ((2, 1),),
}
_OPENS: dict[str, tuple[int, int | None]] = {
    "open": (0, None),
    "creat": (0, None),
    "openat": (1, 0),
    "openat2": (1, 0),
    "truncate": (0, None),
}
_LONGEST_PATH = 4096
_MS_SYNC = 4


class WriteWatch:
    """Answers the calls of one rank, of its threads and children. `listener` is the descriptor of its filter."""

    def __init__(self, listener: int, files: WorkingFolder, journal: DiskJournal) -> None:
        self._listener = listener
        self._files = files
        self._journal = journal
        #: The pattern of the paths on which calls are held back, the number of them that still may be, and those.
        self._pattern = ""
        self._more = 0.0
        self._held: list[Notice] = []

    def fileno(self) -> int:
        """Return the descriptor on which calls arrive."""
        return self._listener

    def serve(self) -> bool:
        """Answer each call that waits; return False if there is nobody left who could make one, or it is no filter."""
        waits = select.poll()
        waits.register(self._listener, select.POLLIN)
        while ready := waits.poll(0):
            if not ready[0][1] & select.POLLIN:
                return False
            try:
                notice = receive(self._listener)
                self._note(notice)
                if not self._holds(notice):
                    let_go(self._listener, notice)
            except FileNotFoundError:
                # Its thread is gone.
                continue
            except OSError:
                return False
        return True

    def _note(self, notice: Notice) -> None:
        try:
            self._take(notice)
        except OSError as error:
            self._journal.lack = self._journal.lack or f"{notice.call}: {error.strerror or error}"

    def hold(self, pattern: str, most: float) -> None:
        """Answer none of the next calls, `most` of them, on a path of the working folder that matches a pattern."""
        self._pattern, self._more = pattern, most

    def release(self) -> None:
        """Answer the calls that were held back, and hold back no more."""
        self._more = 0.0
        for notice in self._held:
            # Its thread may be gone.
            with contextlib.suppress(OSError):
                let_go(self._listener, notice)
        self._held = []

    def _holds(self, notice: Notice) -> bool:
        """Return whether a call is held back from now on."""
        # A call that a signal has interrupted comes again.
        again = [held for held in self._held if held.thread == notice.thread]
        if not again and (
            self._more < 1 or not any(fnmatch.fnmatchcase(p, self._pattern) for p in self._paths(notice))
        ):
            return False
        self._more -= 0 if again else 1
        self._held = [held for held in self._held if held not in again] + [notice]
        return True

    def close(self) -> None:
        """Answer nobody any more."""
        self.release()
        os.close(self._listener)
        self._files.close()

    def _take(self, notice: Notice) -> None:
        args = notice.args
        if notice.call in ("fsync", "fdatasync"):
            self._synced(f"/proc/{notice.thread}/fd/{_descriptor(args[0])}")
        elif notice.call in ("sync", "syncfs"):
            self._journal.all_synced()
        elif notice.call == "msync":
            if args[2] & _MS_SYNC:
                self._mapping_synced(notice)
        elif notice.call in _OPENS:
            path, folder = _OPENS[notice.call]
            self._opened(notice, path, folder)
        else:
            for path, folder in _NAMES.get(notice.call, ()):
                with self._place(notice, path, folder) as (above, name):
                    if name:
                        self._journal.will_change(above, name)

    def _paths(self, notice: Notice) -> list[str]:
        """Return the paths of what a call changes or brings to disk, from the working folder on, as far as known."""
        args, found = notice.args, []
        with contextlib.suppress(OSError):
            if notice.call in ("fsync", "fdatasync"):
                link = f"/proc/{notice.thread}/fd/{_descriptor(args[0])}"
                with opened(os.open(link, os.O_PATH | os.O_CLOEXEC)) as file:
                    self._files.must_contain(file, link)
                    found.append(self._files.path_of(file))
            places = (_OPENS[notice.call],) if notice.call in _OPENS else _NAMES.get(notice.call, ())
            for path, folder in places:
                with self._place(notice, path, folder) as (above, name):
                    found += [os.path.join(self._files.path_of(above), name)] if name else []
        home = self._files.path_of(self._files.descriptor)
        return [os.path.relpath(path, home) for path in found]

    def _synced(self, link: str) -> None:
        try:
            found = os.open(link, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        with opened(found), contextlib.suppress(OutsideError):
            self._files.must_contain(found, link)
            folder = os.path.isdir(f"/proc/self/fd/{found}")
            (self._journal.folder_synced if folder else self._journal.file_synced)(found)

    def _mapping_synced(self, notice: Notice) -> None:
        """Take note of the file that is mapped at an address."""
        with open(f"/proc/{notice.thread}/maps", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                words = line.rstrip("\n").split(None, 5)
                low, high = (int(end, 16) for end in words[0].split("-"))
                if low <= notice.args[0] < high and len(words) == 6:
                    with contextlib.suppress(OutsideError, FileNotFoundError), opened(self._find(words[5])) as found:
                        self._journal.file_synced(found)

    def _opened(self, notice: Notice, path: int, folder: int | None) -> None:
        """Take note of a file that is about to be made, or to be written to."""
        with self._place(notice, path, folder) as (above, name):
            if not name:
                return
            try:
                found = self._find(os.path.join(self._files.path_of(above), name))
            except FileNotFoundError:
                self._journal.will_change(above, name)
            except OutsideError:
                return
            else:
                with opened(found):
                    self._journal.keep(found, above)

    def _find(self, path: str) -> int:
        return self._files.find(path)

    @contextlib.contextmanager
    def _place(self, notice: Notice, path: int, folder: int | None) -> Iterator[tuple[int, str]]:
        """Yield the folder and the name that a path leads to; without a name, if that is not the working folder's."""
        text = _text(notice.thread, notice.args[path])
        if not text.startswith("/"):
            below = -1 if folder is None else _descriptor(notice.args[folder])
            base = f"/proc/{notice.thread}/{'cwd' if below < 0 else f'fd/{below}'}"
            with opened(os.open(base, os.O_PATH | os.O_CLOEXEC)) as start:
                text = os.path.join(self._files.path_of(start), text)
        above, name = os.path.split(text.rstrip("/"))
        try:
            found = self._find(above)
        except (OutsideError, FileNotFoundError, NotADirectoryError):
            yield -1, ""
            return
        with opened(found):
            yield found, name


def _descriptor(value: int) -> int:
    """Return a descriptor as the kernel reads it of an argument: AT_FDCWD is negative."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _text(thread: int, address: int) -> str:
    """Return the path at an address of a thread's memory."""
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        # The memory behind it may end with its page.
        read = memory.read(min(_LONGEST_PATH, 4096 - address % 4096))
        if b"\0" not in read:
            read += memory.read(_LONGEST_PATH)
    return os.fsdecode(read.partition(b"\0")[0])
