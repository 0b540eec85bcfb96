"""Saves and restores of a TensorFlow program: checkpoints by their prefix, Keras' own files by their path."""

from __future__ import annotations

import functools
import glob
import hashlib
import os
import re
import zipfile
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.hooks import after_import
from breakrank_agent.hooks.python.files import blocks_of
from breakrank_agent.hooks.tensorflow.training import training_of
from breakrank_agent.protocol.log import members

WAITS_FOR = "tensorflow"

#: Of a file of Keras, what holds the day and the time at which it was written.
_DATED = "metadata.json"
#: Of a file of Keras, what holds the numbers by which one object in several places is known: its address in memory.
_ADDRESSED = "config.json"
_ADDRESS = re.compile(rb'"shared_object_id": \d+')


def install(agent: Agent) -> None:
    """Wrap what writes checkpoints and what reads them; the outermost call counts."""
    from tensorflow.python.checkpoint import checkpoint, checkpoint_management

    files = _Files(agent)
    agent.on.step_end.append(files.look_back)
    for kind in (checkpoint.Checkpoint, checkpoint.CheckpointV1):
        for name in ("save", "write"):
            files.wrap(kind, name, "save")
        for name in ("restore", "read"):
            files.wrap(kind, name, "restore")
    files.wrap(checkpoint_management.CheckpointManager, "save", "save")
    after_import("keras", functools.partial(_wrap_keras, files))


def _wrap_keras(files: _Files) -> None:
    from keras.src.models import model
    from keras.src.saving import saving_api

    # Models save themselves by the functions of this module, looked up when they are called.
    files.wrap(saving_api, "save_model", "save", path=1)
    files.wrap(saving_api, "load_model", "restore", path=0)
    files.wrap(model.Model, "save_weights", "save")
    files.wrap(model.Model, "load_weights", "restore")


class _Entered(NamedTuple):
    """A call that saves or restores: the path that it names, that path on record, and what lay there before."""

    where: str
    said: str
    before: dict[str, Any]


class _Files:
    """Records the outermost calls that save and restore, each with the digest of what lies on disk."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._under_way = False
        #: The checkpoints restored since the last step, each with TensorFlow's status of it: variables may come later.
        self._restored: list[tuple[str, Any]] = []

    def wrap(self, owner: Any, name: str, point: str, path: int = 1) -> None:
        """Wrap what enters `point`; its argument number `path` says where, unless the call returns that."""
        if not hasattr(owner, name):
            return
        agent = self._agent

        def enter(*args: Any, **kwargs: Any) -> Optional[_Entered]:
            if self._under_way or training_of(agent).ours:
                return None
            given = args[path] if len(args) > path else next(iter(kwargs.values()), None)
            where = str(given) if isinstance(given, (str, os.PathLike)) else ""
            said = agent.relative(where) if where else "(managed)"
            agent.reach(point, says=members({"path": said}))
            self._under_way = True
            return _Entered(where, said, self._look(where) if point == "restore" else {})

        def fail(entered: Optional[_Entered], error: BaseException) -> None:
            if entered is not None:
                agent.raised(point, error, path=entered.said)
                self._under_way = False

        def leave(entered: Optional[_Entered], returned: Any) -> None:
            if entered is None:
                return
            self._under_way = False
            if point == "save":
                where = returned if isinstance(returned, str) else entered.where
                agent.payload("save", path=agent.relative(where), done=agent.clock.done, **self._look(where))
            else:
                path = agent.relative(entered.where)
                agent.payload("restore", path=path, **entered.before)
                if entered.where and hasattr(returned, "assert_consumed"):
                    self._restored.append((path, returned))

        interpose(owner, name, enter, leave, fail)

    def _look(self, where: str) -> dict[str, Any]:
        """Return digest and size of what lies there; to read it is not the program's doing."""
        with self._agent.quietly():
            return _digest(where)

    def look_back(self) -> None:
        """Record of what was restored before this step whether all of it was, on either side."""
        restored, self._restored = self._restored, []
        for path, status in restored:
            with self._agent.quietly():
                lacking = _objection(status.assert_existing_objects_matched)
                unread = "" if lacking else _objection(status.assert_consumed)
            self._agent.record("restored", path=path, lacking=lacking, unread=unread)


def _objection(check: Callable[[], Any]) -> str:
    """Return what TensorFlow has to say against what was restored, without what it prints of values."""
    try:
        check()
    except AssertionError as error:
        return re.sub(r"[:<].*", "", str(error), flags=re.DOTALL).strip()[:200]
    return ""


def _digest(where: str) -> dict[str, Any]:
    """Return digest and size of a file, or of all files of a checkpoint; None for what is not there."""
    paths = [where] if os.path.isfile(where) else sorted(glob.glob(f"{glob.escape(where)}.*"))
    if not where or not paths:
        return {"file": None, "size": None}
    digest, size = hashlib.blake2b(digest_size=8), 0
    try:
        for path in paths:
            for block in _blocks(path):
                digest.update(block)
            size += os.path.getsize(path)
    except (OSError, zipfile.BadZipFile):
        return {"file": None, "size": None}
    return {"file": digest.hexdigest(), "size": size}


def _blocks(path: str) -> Iterator[bytes]:
    """Yield what is in a file, piece by piece, without what differs from day to day, or from process to process."""
    if path.endswith(".keras"):
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if name != _DATED:
                    block = archive.read(name)
                    yield _with_numbers_for_addresses(block) if name == _ADDRESSED else block
    else:
        yield from blocks_of(path)


def _with_numbers_for_addresses(config: bytes) -> bytes:
    """Number shared objects in the order in which a configuration names them first."""
    numbers: dict[bytes, int] = {}
    return _ADDRESS.sub(lambda found: b'"shared_object_id": %d' % numbers.setdefault(found[0], len(numbers)), config)
