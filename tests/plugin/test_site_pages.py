"""The report leads to a page of each run that is not on record, as long as its directory is kept."""

from __future__ import annotations

import os
import shutil

from support.remembered import entry, remembered, session

from breakrank.__main__ import main
from breakrank.memory.reading import read
from breakrank.report.site import TIMELINES
from breakrank.timeline.site import write_report


def test_a_run_that_is_not_on_record_has_a_page_that_the_report_leads_to(project):
    project.scenario("racy", "Case('bad', 'fake:silent', SURVIVED), Case('good', 'fake:sound', SURVIVED)")
    project.pytest("--scenario=racy", "--scenario-report=site").assert_outcomes(passed=1, failed=1)
    site = project.path / "site"
    assert os.listdir(site / TIMELINES) == ["racy-bad-0000.html"]
    assert "SILENT" in (site / TIMELINES / "racy-bad-0000.html").read_text()
    assert f'href="{TIMELINES}/racy-bad-0000.html"' in (site / "index.html").read_text()
    # The same by a command, into another folder; and once the run is gone, the report has no link.
    assert main(["report", ".breakrank", "-o", "other"]) == 0
    assert (project.path / "other" / TIMELINES / "racy-bad-0000.html").exists()
    shutil.rmtree(project.path / ".breakrank" / "racy-bad-0000")
    assert main(["report", ".breakrank/history.sqlite", "-o", "third"]) == 0
    assert "href=" not in (project.path / "third" / "index.html").read_text()


def test_a_name_from_the_history_leads_to_no_other_folder(tmp_path):
    (tmp_path / "outside").mkdir()
    runs = tmp_path / "runs"
    runs.mkdir()
    names = ["../outside", "..", "", "/etc"]
    results = [entry(f"racy::{number}", "SILENT", as_recorded=False, folder=name) for number, name in enumerate(names)]
    remembered(runs, (session(), results))
    write_report(read(runs), runs, tmp_path / "site")
    assert sorted(os.listdir(tmp_path / "site")) == ["index.html"]
