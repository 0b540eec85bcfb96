"""Pages of runs: `--scenario-html`, `--scenario-html-all` and the ini option `scenario_html`."""

from __future__ import annotations

import re
import sys

import pytest


@pytest.fixture
def changed(project):
    """Return a project with a case that does not come out as recorded, and one that does."""
    project.scenario("changed", "Case('bad', 'fake:silent', SURVIVED), Case('good', 'fake:sound', SURVIVED)")
    return project


def pages(project, folder="pages"):
    return sorted(path.name for path in (project.path / folder).glob("*"))


def test_a_run_that_fails_gets_a_page_whose_path_stands_beside_its_files(changed):
    result = changed.pytest("--scenario=changed", "--scenario-html=pages")
    result.assert_outcomes(failed=1, passed=1)
    (name,) = pages(changed)
    result.stdout.fnmatch_lines(["*files:", "*changed-bad-0000", f"*{changed.path / 'pages' / name}", "*replay:"])
    text = (changed.path / "pages" / name).read_text()
    assert "changed::bad" in text and re.search(r'class="outcome SILENT">SILENT', text)


def test_each_run_gets_a_page_if_all_are_asked_for(changed):
    changed.pytest("--scenario=changed", "--scenario-html=pages", "--scenario-html-all")
    assert len(pages(changed)) == 2


def test_the_ini_option_names_the_folder_and_the_option_goes_first(changed):
    changed.pytester.makeini("[pytest]\nscenario_paths = mine\nscenario_html = of/ini\n")
    changed.pytest("--scenario=changed")
    assert len(pages(changed, "of/ini")) == 1
    changed.pytest("--scenario=changed", "--scenario-html=pages")
    assert len(pages(changed)) == 1 and len(pages(changed, "of/ini")) == 1


def test_without_the_option_there_are_no_pages(changed):
    changed.pytest("--scenario=changed").assert_outcomes(failed=1, passed=1)
    assert not list(changed.path.rglob("*.html"))


def test_workers_of_xdist_write_pages_too(changed):
    result = changed.pytest_process("--scenario=changed", "--scenario-html=pages", "-n", "2")
    result.assert_outcomes(failed=1, passed=1)
    (name,) = pages(changed)
    result.stdout.fnmatch_lines([f"*{changed.path / 'pages' / name}"])


def test_all_without_a_folder_is_refused_in_one_line(changed):
    result = changed.pytest("--scenario=changed", "--scenario-html-all")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--scenario-html-all needs the folder of the pages: add --scenario-html=DIR"])


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(changed):
    changed.file("taken", "a file")
    result = changed.pytest("--scenario=changed", "--scenario-html=taken/pages")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*taken/pages cannot be a folder of pages: Not a directory*"])


def test_a_missing_jinja2_is_said_with_its_cure_before_anything_runs(changed, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = changed.pytest("--scenario=changed", "--scenario-html=pages")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*pages need jinja2: pip install 'pytest-breakrank[[]report]'*"])


def test_a_page_that_cannot_be_written_leaves_the_verdict_as_it_is(changed):
    (changed.path / "pages" / "changed-bad-0000.html").mkdir(parents=True)
    result = changed.pytest("--scenario=changed", "--scenario-html=pages")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*changed::bad: SILENT*", "*(there is no page: *Is a directory)"])


def test_a_launch_that_is_explained_names_its_page(project):
    project.file("train.py", "raise SystemExit(3)\n")
    project.file(
        "test_mine.py",
        """
        def test_it(launch):
            run = launch("train.py", ranks=1)
            assert run.survived, run.explain()
        """,
    )
    result = project.pytest_process("test_mine.py", "--scenario-html=pages", plugins=["breakrank.plugin"])
    result.assert_outcomes(failed=1)
    (name,) = pages(project)
    result.stdout.fnmatch_lines([f"*{project.path / 'pages' / name}"])


@pytest.mark.parametrize(
    ("body", "arguments", "count"),
    [
        ("assert run.survived", (), 1),
        ("assert run.detected", (), 0),
        ("assert run.detected", ("--scenario-html-all",), 1),
        ("assert run.survived, run.explain()", (), 1),
    ],
)
def test_a_launch_in_a_test_that_fails_gets_its_page_which_is_named_once(project, body, arguments, count):
    project.file("train.py", "raise SystemExit(3)\n")
    text = f"def test_it(launch):\n    run = launch('train.py', ranks=1, oracles=())\n    {body}\n"
    project.file("test_mine.py", text)
    words = ("test_mine.py", "--scenario-html=pages", "-rA", *arguments)
    result = project.pytest_process(*words, plugins=["breakrank.plugin"])
    result.assert_outcomes(**({"failed": 1} if "survived" in body else {"passed": 1}))
    assert len(pages(project)) == count
    assert result.stdout.str().count(".html") == count
    if body == "assert run.survived":
        result.stdout.fnmatch_lines(["E *where False = <DETECTED: *>.survived"])


def test_a_launch_of_a_fixture_gets_its_page_where_the_fixture_fails(project):
    project.file("train.py", "raise SystemExit(3)\n")
    fixture = "@pytest.fixture\ndef trained(launch):\n    assert launch('train.py', ranks=1).survived\n"
    project.file("test_mine.py", f"import pytest\n{fixture}\ndef test_it(trained):\n    pass\n")
    result = project.pytest_process("test_mine.py", "--scenario-html=pages", plugins=["breakrank.plugin"])
    result.assert_outcomes(errors=1)
    (name,) = pages(project)
    result.stdout.fnmatch_lines(["*pages of the runs*", f"*{name}"])
