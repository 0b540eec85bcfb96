"""Summaries of parameters for the record, for any framework: in parts, each with a name and a digest."""

from __future__ import annotations

import hashlib
from typing import Any

#: The most parts into which the record of a step divides the parameters: a record has a limit.
MOST_PARTS = 256
#: The most characters that are kept of a parameter's name.
NAME_LIMIT = 100


def in_parts(parameters: list[Any]) -> list[list[Any]]:
    """Return the parameters one by one, or, of more than `MOST_PARTS`, as many neighbours together as it takes."""
    together = max(1, -(-len(parameters) // MOST_PARTS))
    return [parameters[start : start + together] for start in range(0, len(parameters), together)]


def name_part(first: str, part: list[Any]) -> str:
    """Return the name of a part whose first parameter is called `first`."""
    return first if len(part) == 1 else f"{first} and the {len(part) - 1} after it"


def summary_of(digests: list[bytes], squares: list[float], norms: bool) -> dict[str, Any]:
    """Return the digest, the norm and the finiteness of parameters, from each part's digest and sum of squares.

    `parts` are the parts' digests. `norms`, one for each part, are only for an oracle that compares within a tolerance.
    """
    whole, norm = hashlib.blake2b(b"".join(digests), digest_size=8), sum(squares)
    # A sum of squares is finite exactly when every term is.
    finite = norm == norm and norm not in (float("inf"), float("-inf"))
    summary = {"params": whole.hexdigest(), "norm": norm**0.5 if finite else None, "finite": finite}
    summary["parts"] = [digest.hex()[:8] for digest in digests]
    if norms and finite:
        summary["norms"] = [square**0.5 for square in squares]
    return summary
