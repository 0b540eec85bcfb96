"""Spans of time as a person writes them: `90s`, `30m`, `2h`, `14d`, `1w`."""

from __future__ import annotations

import math
import re
import time

from breakrank.errors import BreakrankError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def seconds_of(text: str, what: str) -> float:
    """Return the seconds of a span; a bare number is seconds. Raises `BreakrankError`, which names `what`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw]?)", text.strip(), re.ASCII)
    seconds = float(match[1]) * _UNITS[match[2] or "s"] if match else 0.0
    # Beyond a thousand years no date is left to count from.
    if not 0 < seconds < 1000 * 365 * 86400 or not math.isfinite(seconds):
        raise BreakrankError(f"{what} is {text!r}; give a span of time above 0, as 90s, 30m, 2h or 14d")
    return seconds


def moment(seconds: float) -> str:
    """Return a moment, in seconds since 1970, as it is kept: UTC, as in 2026-11-30T02:00:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def now() -> str:
    """Return the moment that it is now."""
    return moment(time.time())


def duration(seconds: float) -> str:
    """Return a duration in words, as `0.3 s`, `12 s`, `3 min`, `2 h 05 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
