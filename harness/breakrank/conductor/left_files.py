"""Files that the ranks have left in their working folder, read without following anything that leads out of it."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

from breakrank_agent.kernel.rooted import WorkingFolder

#: The most bytes that are read of the files left after one attempt; a file beyond that is left out.
READ_BYTES = 16_000_000_000
_BLOCK = 1 << 20


def tell_remains(files: WorkingFolder, paths: Iterable[str], limit: int = READ_BYTES) -> Iterator[dict[str, Any]]:
    """Yield the path, the digest and the size of each regular file that lies in the folder, of those named.

    The names come from the ranks: a name that leads to anything else is left out, as is a file that cannot be read.
    """
    for path in paths:
        with contextlib.suppress(OSError), os.fdopen(files.open(path), "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size <= limit:
                limit -= size
                yield {"path": path, **_digest(file, size)}


def _digest(file: Any, size: int) -> dict[str, Any]:
    """Return digest and size of the first `size` bytes of an open file, which may grow for ever."""
    digest, left = hashlib.blake2b(digest_size=8), size
    while left and (block := file.read(min(_BLOCK, left))):
        digest.update(block)
        left -= len(block)
    return {"file": digest.hexdigest(), "size": size - left}
