"""What waits for a module is called when the module has run, and not when somebody only asks whether it is there."""

from __future__ import annotations

import importlib
import importlib.util
import sys

from breakrank_agent.hooks import after_import


def test_a_look_for_the_module_is_not_its_import(tmp_path, monkeypatch):
    (tmp_path / "waited_for.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    followed = []
    after_import("waited_for", lambda: followed.append(sys.modules["waited_for"].value))
    assert importlib.util.find_spec("waited_for") is not None and followed == []
    importlib.import_module("waited_for")
    assert followed == [1]
    importlib.reload(sys.modules["waited_for"])
    assert followed == [1]
