"""`breakrank timeline` and `breakrank trace`: the files that they write, and what they say."""

from __future__ import annotations

import gzip
import json
import sys
import webbrowser

import pytest

from breakrank.__main__ import main


@pytest.fixture
def run(project, monkeypatch):
    """Return a run that went wrong, from the folder of the project."""
    project.scenario("changed", "Case('bad', 'fake:silent', SURVIVED)")
    project.pytest("--scenario=changed")
    monkeypatch.chdir(project.path)
    return project.path / ".breakrank/changed-bad-0000"


@pytest.mark.parametrize(
    ("command", "name"), [("timeline", "changed-bad-0000.html"), ("trace", "changed-bad-0000.json.gz")]
)
def test_the_latest_failure_is_drawn_into_this_folder_and_the_path_is_said(run, command, name, capsys):
    assert main([command]) == 0
    assert capsys.readouterr().out == f"{name}\n"
    assert (run.parents[1] / name).stat().st_size > 0


@pytest.mark.parametrize("command", ["timeline", "trace"])
def test_a_file_may_be_named_and_one_that_cannot_be_written_is_one_line(run, command, tmp_path, capsys):
    assert main([command, str(run), "-o", str(tmp_path / "named")]) == 0
    assert (tmp_path / "named").stat().st_size > 0
    assert main([command, str(run), "-o", str(tmp_path / "no" / "folder")]) == 4
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "cannot be written" in captured.err


def test_a_trace_is_compressed_json_with_the_outcome(run):
    main(["trace", str(run), "-o", "t.json.gz"])
    trace = json.loads(gzip.decompress((run.parents[1] / "t.json.gz").read_bytes()))
    assert trace["otherData"]["outcome"] == "SILENT" and trace["traceEvents"]


def test_the_page_is_opened_when_that_is_asked_for(run, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    main(["timeline", str(run)])
    assert not opened
    main(["timeline", str(run), "--open"])
    assert opened == [(run.parents[1] / "changed-bad-0000.html").as_uri()]


def test_without_jinja2_a_page_is_refused_with_the_cure_and_a_trace_is_written(run, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(["timeline", str(run)]) == 4
    assert "pip install 'pytest-breakrank[report]'" in capsys.readouterr().err
    assert main(["trace", str(run)]) == 0
