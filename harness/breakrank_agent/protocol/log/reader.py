"""LogReader: the Conductor's end of a rank's log."""

from __future__ import annotations

import os
import stat
import struct
from array import array
from typing import Any, Union

from breakrank_agent.protocol.checked import parse
from breakrank_agent.protocol.clock import MAIN
from breakrank_agent.protocol.log.layout import (
    ACCESS,
    ALL_ONES,
    HEAD,
    HEADER,
    HEADER_SIZE,
    LAST,
    LENGTH,
    LIST,
    MARK,
    NAMES,
    NUMBER,
    TABLE_SIZE,
    TAIL,
    TAILS,
    WORD,
    Damaged,
    HistoryError,
    check_begin,
)
from breakrank_agent.protocol.log.text import RECORD_LIMIT, event_text


class LogReader:
    """The Conductor's end: records stay readable after the rank is gone.

    The rank may write anything anywhere in the file, and cut it short: of a mapping, that would end us (SIGBUS). It is
    read and written on a descriptor of its own, so that what is wrong is found and said. Raises `OSError`.
    """

    __slots__ = ("_begin", "_facts", "_file", "_path", "_size", "_table_end", "_tail", "_takes", "dropped")

    def __init__(self, path: Union[str, int], takes: bool = True) -> None:
        self._path, self._takes = path, takes
        # A link or a pipe in its place is not followed, nor waited for.
        flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_RDWR if takes else os.O_RDONLY)
        self._file = os.dup(path) if isinstance(path, int) else os.open(path, flags)
        try:
            status = os.fstat(self._file)
            self._begin = os.pread(self._file, HEAD * WORD, 0) if stat.S_ISREG(status.st_mode) else b""
            self._size = check_begin(path, self._begin, status.st_size)
            self._tail, check = TAILS.unpack(os.pread(self._file, TAILS.size, TAIL * WORD))
            if self._tail ^ check != ALL_ONES or self._tail % WORD:
                raise Damaged("the header of its log was written over")
        except BaseException:
            os.close(self._file)
            raise
        self._table_end = HEADER_SIZE + self._size
        self._facts = [""]
        #: The number of records that were lost; any loss is VOID.
        self.dropped = 0
        self._look()

    def close(self) -> None:
        """Close the log."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def drain(self) -> list[bytes]:
        """Return the records written since the last call, and give their room back. Raises `Damaged`."""
        before = self._tail
        records = self.peek()
        if self._tail != before:
            os.pwrite(self._file, TAILS.pack(self._tail, self._tail ^ ALL_ONES), TAIL * WORD)
        return records

    def end_after(self, step: int) -> None:
        """Have the rank end after a step."""
        os.pwrite(self._file, TAILS.pack(step, step ^ ALL_ONES), LAST * WORD)

    def peek(self) -> list[bytes]:
        """Return the records written since the last call, and leave them in the log. Raises `Damaged`."""
        head = self._look()
        if head == self._tail:
            return []
        if not self._is_ahead(head):
            # It may have been read while it was being written, which is never seen twice.
            head = self._look()
        if not self._is_ahead(head):
            raise Damaged("the header of its log was written over")
        data = self._copy_out(self._tail, head - self._tail)
        records, at = [], 0
        while at < len(data):
            (length,) = LENGTH.unpack_from(data, at)
            end = at + LENGTH.size + length
            if end > len(data):
                raise Damaged(f"it says that a record has {length} bytes, where there is room for fewer")
            records.append(self._in_full(data[at + LENGTH.size : end]))
            at = end + -end % WORD
        self._tail = head
        return records

    def _look(self) -> int:
        """Read the header; return up to where records were written. Raises `Damaged`."""
        raw = os.pread(self._file, HEADER.size, 0)
        if len(raw) < HEADER.size:
            raise Damaged("its log was cut short")
        begin, head, self.dropped = HEADER.unpack(raw)
        if begin != self._begin:
            raise Damaged("the header of its log was written over")
        return int(head)

    def _is_ahead(self, head: int) -> bool:
        return self._tail <= head <= self._tail + self._size and head % WORD == 0

    def _in_full(self, record: bytes) -> bytes:
        """Return a record as the JSON that it stands for, if it is one in few words. Raises `Damaged`."""
        name = NAMES.get(record[:1])
        if name is None:
            return record
        try:
            return self._as_event(name, bytes(LENGTH.size) + record)
        except (struct.error, ValueError) as error:
            raise error if isinstance(error, Damaged) else Damaged(f"a record of the kind {name!r} is none") from None

    def _as_event(self, name: str, data: bytes) -> bytes:
        if name == "list":
            _, _, place, n, step, now = LIST.unpack_from(data)
            numbers = array(NUMBER, data[LIST.size :]).tolist()
            return event_text("payload", n, MAIN, step, now, f"{self._kept(place)}{numbers}")
        if name == "access":
            _, _, place, n, step, taken, now = ACCESS.unpack(data)
            sequence, _, values = self._kept(place).partition(" ")
            return event_text(name, n, sequence, step, now, values + (f',"pick":{taken - 1}' if taken else ""))
        _, _, place, n, step, visit, number, now = MARK.unpack(data)
        values = self._kept(place) + (str(number) if number else "")
        if name == "done":
            return event_text(name, n, MAIN, step, now, values)
        return event_text("point", n, MAIN, step, now, f',"point":"{name}","visit":{visit}{values}')

    def _kept(self, place: int) -> str:
        """Return facts of the table by their place. Raises `Damaged`."""
        while place >= len(self._facts):
            start, end = self._table_end + LENGTH.size, HEADER_SIZE + self._size + TABLE_SIZE
            (length,) = LENGTH.unpack(os.pread(self._file, LENGTH.size, self._table_end))
            data = os.pread(self._file, length, start) if 0 < length <= end - start else b""
            if len(data) != length or not data:
                raise Damaged(f"a record names facts that are not in its table, at place {place}")
            self._facts.append(data.decode())
            self._table_end = start + length
        return self._facts[place]

    def _copy_out(self, position: int, length: int) -> bytes:
        start = position % self._size
        first = min(length, self._size - start)
        data = os.pread(self._file, first, HEADER_SIZE + start)
        if first < length:
            data += os.pread(self._file, length - first, HEADER_SIZE)
        if len(data) != length:
            raise Damaged("its log was cut short")
        return data


def read_log(path: str) -> list[dict[str, Any]]:
    """Return the events that a log still holds, without taking them out of it. Raises `HistoryError`."""
    try:
        return [parse(record, 2 * RECORD_LIMIT) for record in peek_log(path)]
    except ValueError as error:
        raise HistoryError(f"{path} is damaged: {error}") from None


def peek_log(path: Union[str, int]) -> list[bytes]:
    """Return the records that a log still holds, without taking them out of it; `path` may be an open file.

    It may hold anything. Raises `HistoryError` for what is no log, or a damaged one.
    """
    try:
        reader = LogReader(path, takes=False)
    except OSError as error:
        raise HistoryError(f"{path} cannot be read: {error.strerror}") from None
    try:
        return reader.peek()
    finally:
        reader.close()
