"""The archive: the standard library and our own modules alone, in the Python of a node that is old."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import zipfile

import pytest

from breakrank.nodes.archive import archive, modules
from breakrank.nodes.bootstrap import start


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_module_that_is_sent_imports_nothing_but_the_standard_library_and_ours(name):
    tree = ast.parse(modules()[name].read_text(), feature_version=(3, 9))
    tops = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            tops |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            tops.add(node.module.split(".")[0])
    assert tops <= {*sys.stdlib_module_names, "breakrank", "breakrank_agent"}


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_module_that_is_sent_asks_nothing_of_python_that_3_9_lacks(name):
    for node in ast.walk(ast.parse(modules()[name].read_text())):
        named = {keyword.arg for keyword in node.keywords} if isinstance(node, ast.Call) else set()
        called = getattr(getattr(node, "func", None), "id", "")
        # `strict` of zip, and `slots` and `kw_only` of dataclasses, came with 3.10.
        assert not (called == "zip" and "strict" in named) and not named & {"slots", "kw_only"}
        assert not isinstance(node, getattr(ast, "Match", ())), f"{name} has a match statement"


def test_all_of_it_can_be_imported_from_the_archive_alone(tmp_path):
    with zipfile.ZipFile(io.BytesIO(archive())) as files:
        files.extractall(tmp_path)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {', '.join(sorted(modules()))}"
    code += "; from breakrank.witnesses import all_witnesses; assert 'ended' in all_witnesses()"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, cwd=tmp_path)


def test_equal_code_is_an_equal_archive():
    first = archive()
    archive.cache_clear()
    assert archive() == first


def test_the_first_code_on_a_node_is_python_that_old_ones_read():
    command, _ = start({})
    assert '"' not in command.split("python3 -c ")[0]
    # Print as a statement, and no f-strings or annotations: Python 2.7 and 3.5 read it, too.
    code = command.partition("-c '")[2].rpartition("'")[0]
    assert 'f"' not in code and "print" not in code
