"""Witnesses of data: a batch or a shard is read again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping

from breakrank.witnesses import Evidence, Witness
from breakrank.witnesses.limits import of_each_file
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.shards import MANIFEST, SHARD_BYTES
from breakrank_agent.protocol.target import Target


class Batch(Witness[None]):
    """The digest of the batch, read again by the recorder before it is handed out, is another one than as loaded."""

    def judge(self, fault: Fault, evidence: Evidence[None]) -> str | None:
        """Compare the two digests."""
        seen = evidence.seen
        if not seen or seen["before"] == seen["after"]:
            return None
        return f"batch read again: {seen['before']} became {seen['after']}"


class Shard(Witness[str]):
    """The bytes of the rank's shard, read again, are others than before the strike."""

    def look(self, fault: Fault, target: Target) -> str | None:
        """Return the digest of the rank's shard in the working folder; None if it has none."""
        # A rank may have laid the files.
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, RecursionError), target.files() as files:
            for laid in json.loads(files.read(MANIFEST, SHARD_BYTES))["shards"]:
                if laid["rank"] == target.rank:
                    return hashlib.sha256(files.read(laid["file"], SHARD_BYTES)).hexdigest()
        return None

    def judge(self, fault: Fault, evidence: Evidence[str]) -> str | None:
        """Compare the two digests."""
        before, after = evidence.before, evidence.after
        if not before or not after or before == after:
            return None
        return f"the shard read again: {before[:16]} became {after[:16]}"


class ShorterFile(Witness[Mapping[str, int]]):
    """One of the fault's files is shorter than before, as the kernel tells its size."""

    def look(self, fault: Fault, target: Target) -> Mapping[str, int]:
        """Return the size of each of the fault's files, as the rank sees them."""
        return of_each_file(fault, target, lambda file: os.fstat(file.fileno()).st_size)

    def judge(self, fault: Fault, evidence: Evidence[Mapping[str, int]]) -> str | None:
        """Compare the two looks."""
        before, after = evidence.before or {}, evidence.after or {}
        others = [path for path in before if before[path] != after.get(path)]
        if len(others) != 1 or before.keys() != after.keys() or after[others[0]] > before[others[0]]:
            return None
        path = others[0]
        return f"fstat: {os.path.basename(path)} has {after[path]} bytes, and had {before[path]}"
