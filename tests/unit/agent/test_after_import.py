"""A callback for a module is called when the module has run, and not when somebody only asks whether it is there."""

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


def test_a_module_that_is_just_being_imported_is_waited_for(tmp_path, monkeypatch):
    (tmp_path / "outermost.py").write_text("import brought_along\nvalue = 1\n")
    (tmp_path / "brought_along.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    followed = []
    after_import("outermost", lambda: followed.append("first"))

    def see() -> None:
        followed.append(sys.modules["outermost"].value)

    after_import("brought_along", lambda: after_import("outermost", see))
    importlib.import_module("outermost")
    assert followed == ["first", 1]
