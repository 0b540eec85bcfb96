"""The layout of a log: a header, a ring of records, and a table of facts that come again and again."""

from __future__ import annotations

import os
import struct
from typing import Union

from breakrank_agent.protocol.trigger import POINTS

VERSION = 5
MAGIC = b"BRKRANK1"
HEADER_SIZE = 64
DEFAULT_SIZE = 1 << 20
#: The bytes behind the records in which facts that come again and again are kept, once each.
TABLE_SIZE = 1 << 16
LENGTH = struct.Struct("<I")
#: A record begins at a multiple of so many bytes: its length, then what it says.
WORD = 8
#: A point, or the end of a collective, in few words: length, code, the place of its facts in the table (0: none); n;
#: step; visit; the number that the facts end with (0: none); t. In a step, most of what the agent costs is how much
#: memory it touches, and to store a word touches less of it than a struct that packs them all.
MARK = struct.Struct("<IHHQQQQd")
MARK_WORDS, MARK_SIZE = MARK.size // WORD, MARK.size
#: A payload that is a list of whole numbers: length, code, the place of its facts, n, step, t; the numbers follow.
LIST = struct.Struct("<IHHIId")
#: An access: length, code, the place of its sequence and facts, n, step, the pick that it came of and one (0: none), t.
ACCESS = struct.Struct("<IHHIIQd")
#: The type of a list's items, as the module array names it: whole numbers of four bytes.
NUMBER = "i"
#: The most numbers of a list in few words: as text, it has to be within the limit of a record, too.
MOST_LISTED = 4096
#: Codes of the records in few words. The first byte of a record that is text is a brace.
CODES = {name: code for code, name in enumerate((*POINTS, "done", "list", "access"), 1)}
NAMES = {bytes([code]): name for name, code in CODES.items()}
#: The first word of a mark without facts, and what the place of facts is shifted by in it.
FIRST_WORDS = {name: (MARK_SIZE - LENGTH.size) | code << 32 for name, code in CODES.items()}
PLACE_AT = 48
#: Words of the header, of eight bytes each; magic, version and size are the first two. The tail is written by write(2),
#: which may be seen half done: its complement stands beside it.
HEAD, TAIL, TAIL_CHECK, DROPPED = 2, 3, 4, 5
#: The step after which the rank is to end, and its complement; both are 0 as long as nobody has said one.
LAST, LAST_CHECK = 6, 7
TAILS, ALL_ONES = struct.Struct("<QQ"), (1 << 64) - 1
#: Magic, version and size; the head; the two words of the tail; how many records were dropped.
HEADER = struct.Struct("<16sQ16xQ")
#: The most records that a log is taken to have room for, whatever it says.
MOST_SIZE = 1 << 30


class HistoryError(ValueError):
    """A history, or a file of it, cannot be read."""


class Damaged(HistoryError):
    """A log does not hold what its writer writes; the message says why, in a clause."""


def create_log(path: str, size: int = DEFAULT_SIZE) -> None:
    """Allocate the mapped log at `path`: the header, `size` bytes of records (whole words), the table of facts.

    The blocks are reserved here, so that a disk that fills later cannot touch what a rank records. Raises `OSError`.
    """
    size += -size % WORD
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, HEADER_SIZE + size + TABLE_SIZE)
        os.pwrite(descriptor, MAGIC + struct.pack("<II", VERSION, size), 0)
        os.pwrite(descriptor, TAILS.pack(0, ALL_ONES), TAIL * WORD)
    finally:
        os.close(descriptor)


def check_begin(path: Union[str, int], begin: bytes, total: int) -> int:
    """Return the bytes that a log has for records, by its first words. Raises `HistoryError` if it is no log."""
    if len(begin) == HEAD * WORD:
        magic, version, size = struct.unpack("<8sII", begin)
        fits = 0 < size <= MOST_SIZE and size % WORD == 0 and total >= HEADER_SIZE + size + TABLE_SIZE
        if magic == MAGIC and version == VERSION and fits:
            return int(size)
    raise HistoryError(f"{path} is no log of version {VERSION}")
