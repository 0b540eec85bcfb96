"""A running job as it was found: one sentence, the groups of ranks with the user's lines, and how to look deeper."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

import psutil

from breakrank.host.stacks import Frame, Place
from breakrank.live.sampling import Seen
from breakrank.live.why import Answer, Group, says
from breakrank_agent.kernel.rooted import open_root, opened, reopen, resolve

#: The most frames of the user's that are shown: the innermost ones.
_FRAMES = 8
_TEXT = 72
#: As big may a file of source text be.
_SOURCE = 1 << 24


def draw_answer(answer: Answer) -> str:
    """Return the answer as text."""
    blocks = [answer.sentence, *(_group(group) for group in answer.groups)]
    if answer.notes:
        blocks.append("\n".join(["  also:", *(f"    {note}" for note in answer.notes)]))
    return "\n".join([*blocks, "  look deeper:", *(f"    {line}" for line in _deeper(answer))]) + "\n"


def _group(group: Group) -> str:
    """Return what a group does, and the stack that its ranks share."""
    pids = ", ".join(str(one.member.pid) for one in group.seen)
    lines = [f"  {says(group)}  [pid {pids}]"]
    first = group.first
    if first.place is not None:
        lines += _stack(first, first.place)
    for stack in first.threads:
        lines += [f"    {stack.thread}{f', in {stack.place.wait.name}' if stack.place.wait else ''}:"]
        lines += [f"  {line}" for line in _stack(first, stack.place)]
    return "\n".join(lines)


def _stack(seen: Seen, place: Place) -> list[str]:
    """Return the user's frames, outermost first: function, line, and the text of the line."""
    shown = place.frames[-_FRAMES:]
    cells = [(frame.function, f"{_short(frame.file, seen.member.folder)}:{frame.lines}") for frame in shown]
    widths = [max(len(cell[column]) for cell in cells) for column in (0, 1)]
    lines = [f"    ... {len(place.frames) - len(shown)} more"] if len(shown) < len(place.frames) else []
    for frame, (function, where) in zip(shown, cells, strict=True):
        text = _line(frame, seen.member.pid)
        lines.append(f"    {function:<{widths[0]}}  {where:<{widths[1]}}  {text}".rstrip())
    return lines


def _short(file: str, folder: str) -> str:
    """Return the file as seen from the folder that the rank is in."""
    return os.path.relpath(file, folder) if folder and file.startswith(os.path.join(folder, "")) else file


def _line(frame: Frame, pid: int) -> str:
    """Return the text of the line, or nothing if the file may not be the one that runs."""
    if frame.until:
        return ""
    try:
        process = psutil.Process(pid)
        # The process may have another root and another folder than we have, and links that lead elsewhere there.
        with opened(open_root(pid)) as root, opened(resolve(root, os.path.join(process.cwd(), frame.file))) as found:
            state = os.fstat(found)
            if state.st_mtime > process.create_time() or not stat.S_ISREG(state.st_mode) or state.st_size > _SOURCE:
                return ""
            with os.fdopen(reopen(found, os.O_RDONLY), encoding="utf-8", errors="replace") as file:
                text = next((line for number, line in enumerate(file, 1) if number == frame.line), "").strip()
    except (OSError, psutil.Error):
        return ""
    return text if len(text) <= _TEXT else text[: _TEXT - 3] + "..."


def _deeper(answer: Answer) -> Sequence[str]:
    """Return the next commands: whole stacks with the values of variables, and a start that checks collectives."""
    seen = answer.odd or answer.groups[0].seen
    lines = [f"py-spy dump --nonblocking --locals --pid {one.member.pid}" for one in seen[:2] if one.place is not None]
    if any(group.first.meets and not group.first.moves for group in answer.groups):
        lines.append("TORCH_DISTRIBUTED_DEBUG=DETAIL at the next start compares op, shape and type of each collective")
    return lines or [f"dmesg | tail; what {answer.groups[0].names} printed last"]
