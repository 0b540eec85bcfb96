"""The mark of a run directory that this user made on this machine: a replay runs the code that it names.

A run directory carries a mark: a keyed digest (RFC 2104) of its plan and of the folder of its programs, made with a key
that only this user has. A stranger's directory has none that fits, whoever unpacks it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Any

from breakrank.errors import BreakrankError
from breakrank.files.bounded import Folder

#: The field of meta.json that holds the mark.
MARK = "mark"
_KEY_BYTES = 32


def mark(plan: str, programs: str) -> str:
    """Return the mark of a run with this plan and these programs; empty where this user can keep no key."""
    key = _key()
    return "" if key is None else _digest(key, plan.encode(), programs)


def is_ours(folder: Path) -> bool:
    """Return whether a run directory was made by this user here.

    If the user can keep no key, the user must own each file of the directory that a replay reads.
    """
    key = _key()
    if key is None:
        names = (folder, *(folder / name for name in ("plan.json", "meta.json", "conductor.jsonl")))
        return all(_is_owned(path) for path in names)
    meta, plan = read_meta(folder), Folder(folder).read("plan.json")
    if plan is None:
        return False
    made = _digest(key, plan, str(meta.get("programs", "")))
    return hmac.compare_digest(made.encode(), str(meta.get(MARK, "")).encode("utf-8", "replace"))


def read_meta(folder: Path) -> dict[str, Any]:
    """Return what meta.json of a run directory says; nothing where there is none. Raises `BreakrankError`."""
    meta = Folder(folder).read_json("meta.json", 1 << 20)
    if meta is not None and not isinstance(meta, dict):
        raise BreakrankError(f"{folder / 'meta.json'} is damaged: it is no object")
    return meta or {}


def key_path() -> Path:
    """Return where the key is kept: in the user's state folder (XDG Base Directory Specification)."""
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if os.path.isabs(state) else Path("~/.local/state").expanduser()) / "breakrank" / "key"


def _digest(key: bytes, plan: bytes, programs: str) -> str:
    return hmac.new(key, plan + b"\0" + programs.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _key() -> bytes | None:
    """Return the user's key, made if there is none yet; None where none can be kept."""
    try:
        path = key_path()
        if not path.exists():
            _make_key(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            secret = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
            key = file.read(_KEY_BYTES) if secret else b""
    except (OSError, RuntimeError):
        # RuntimeError: the user has no home folder.
        return None
    return key if len(key) == _KEY_BYTES else None


def _make_key(path: Path) -> None:
    """Write a key, whole or not at all: another process of this user may do the same. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f"key.{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(new, path)
    finally:
        os.unlink(new)


def _is_owned(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.geteuid() and not path.is_symlink()
    except OSError:
        return False
