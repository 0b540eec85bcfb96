"""Golden jobs of collectives, each with what it read and wrote."""

from __future__ import annotations

from typing import Any

from breakrank.verdict import Finding
from support.asking import ask
from support.golden import Golden


def tensor(*values: float) -> dict[str, Any]:
    """Return the record of a tensor."""
    facts = {"n": len(values), "sum": sum(values), "abs": sum(map(abs, values)), "max": max(values), "min": min(values)}
    return {"digest": str(values), **facts}


class Calls:
    """A job whose ranks call collectives; each call is numbered in its group as the agent does."""

    def __init__(self, ranks: int = 2) -> None:
        self.job = Golden(ranks)
        self._counts: dict[tuple[int, str], int] = {}

    def call(self, rank: int, read: Any, got: Any = None, line: int = 8, kept: bool = True, **facts: Any) -> Calls:
        """Let a rank call a sum, unless `facts` say another thing, and come back from it if it `got` something."""
        group = facts.setdefault("group", "0")
        op = facts.setdefault("op", "allreduce_")
        number = self._counts[rank, group] = self._counts.get((rank, group), 0) + 1
        where = {name: facts[name] for name in ("p", "peer") if name in facts} or {"c": number}
        facts = {"reduce": "SUM", **facts, **where, "site": f"train.py:{line}" if line else ""}
        self.job[rank].enters("collective", **facts, **{"in": read if isinstance(read, list) else [read]})
        if got is not None:
            out = got if isinstance(got, list) else [got]
            self.job[rank].writes("done", op=op, group=group, **where, out=out, kept=kept)
        return self

    def all(self, got: Any = None, line: int = 8, **of_rank_1: Any) -> Calls:
        """Let all ranks sum a one; what rank 1 does otherwise is given."""
        size = self.job.size
        for rank in range(size):
            odd = of_rank_1 if rank == 1 else {}
            self.call(rank, tensor(1.0), **{"got": got or tensor(float(size)), "line": line, **odd})
        return self

    def steps(self) -> Calls:
        """End a step on all ranks, and begin the next one."""
        for one in self.job.ranks:
            one.ends_step().enters("forward")
        return self

    def found(self, control: Calls | None = None) -> list[Finding]:
        """Return the findings of the oracle."""
        model = control.job.ends_well().history() if control is not None else None
        return ask("collectives", self.job.ends_well().history(), model, ranks=self.job.size)

    def finding(self, control: Calls | None = None) -> Finding:
        (one,) = self.found(control)
        return one


WRONG = tensor(7.0)


def in_order(*orders: str, values: dict[str, float] | None = None) -> Calls:
    """Return a job in which all ranks sum A, B and C, and then each in its own order; each line has its own numbers."""
    values = values or {"A": 1.0, "B": 20.0, "C": 300.0, "D": 4000.0}
    calls = Calls(len(orders))
    for letters in zip(*(f"ABC{order}" for order in orders), strict=True):
        total = sum(values[letter] for letter in letters)
        for rank, letter in enumerate(letters):
            calls.call(rank, tensor(values[letter]), tensor(total), ord(letter) - ord("A") + 1)
    return calls
