"""The manifest of the shards that `fixtures.data` lays into a working folder."""

from __future__ import annotations

#: The name of the manifest: it names the shard of each rank.
MANIFEST = "manifest.json"
#: The most bytes that the manifest, or a file that it names, may have: the shards of the programs have some kilobytes.
SHARD_BYTES = 1 << 26
