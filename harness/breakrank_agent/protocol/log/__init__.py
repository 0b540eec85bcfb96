"""The mapped log that a rank writes while it runs, and that pytest's side reads while the rank runs, or after it.

A record is one event: a JSON object, or fewer bytes that stand for one. `breakrank_agent.protocol.events` declares the
kinds of events and their fields.
"""

from __future__ import annotations

from breakrank_agent.protocol.log.layout import (
    DEFAULT_SIZE,
    HEADER_SIZE,
    LAST,
    NUMBER,
    TABLE_SIZE,
    Damaged,
    HistoryError,
    create_log,
)
from breakrank_agent.protocol.log.reader import LogReader, peek_log, read_log
from breakrank_agent.protocol.log.text import RECORD_LIMIT, encode, event_text, members
from breakrank_agent.protocol.log.writer import LogWriter, pause

__all__ = [
    "DEFAULT_SIZE",
    "HEADER_SIZE",
    "LAST",
    "NUMBER",
    "RECORD_LIMIT",
    "TABLE_SIZE",
    "Damaged",
    "HistoryError",
    "LogReader",
    "LogWriter",
    "create_log",
    "encode",
    "event_text",
    "members",
    "pause",
    "peek_log",
    "read_log",
]
