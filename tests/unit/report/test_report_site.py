"""The page of a memory: hostile names are text, a cell leads to its timeline, and nothing is loaded from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from support.remembered import entry, night, remembered, session

from breakrank.errors import BreakrankError
from breakrank.memory.reading import read
from breakrank.report.site import MOST_SESSIONS, check_templates, write_site

CHROMIUM = shutil.which("chromium")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 7*7 }}\x1b[31m\0"


class Page(HTMLParser):
    """The elements of a page with their attributes, and the text of each cell of the tables."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.raw = text
        self.elements = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def cells(self):
        return [one for one in self.all("td") if "cell" in one.get("class", "")]


@pytest.fixture
def site(tmp_path):
    """Return what writes the page of sessions, and parses it."""

    def write(*sessions):
        return Page(write_site(remembered(tmp_path, *sessions), tmp_path / "site").read_text())

    return write


def test_hostile_names_and_sentences_are_text(site):
    values = {"finding": HOSTILE, "sentence": HOSTILE, "family": HOSTILE, "record": HOSTILE, "mechanism": HOSTILE}
    values |= {"as_recorded": False, "blame": HOSTILE, "folder": HOSTILE}
    image = {"image": HOSTILE, "git": HOSTILE, "host": HOSTILE, "torch": HOSTILE}
    case = f"{HOSTILE}::{HOSTILE}"
    page = site(
        (night(1, **image), [entry(case, **values)]), (night(2, **image), [entry(case, outcome="HUNG", **values)])
    )
    assert [len(page.all(tag)) for tag in ("script", "img")] == [1, 0]
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert "alert(2)" in page.text and "{{ 7*7 }}" in page.text


def test_nothing_is_loaded_from_elsewhere(site):
    page = site((session(1), [entry()]))
    assert not page.all("link") and not any("src" in attributes for _, attributes in page.elements)
    (policy,) = [one["content"] for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert not re.search(r"https?://|url\(|@import", page.raw)


def test_a_cell_leads_to_the_timeline_of_its_run_where_that_is_there(site, tmp_path):
    timelines = tmp_path / "site" / "timelines"
    timelines.mkdir(parents=True)
    (timelines / "racy-one s0#1.html").write_text("")
    cases = [entry(folder="racy-one s0#1"), entry("racy::two", folder="racy-two-s0-0001"), entry("racy::three")]
    page = site((session(1), [*cases, entry("racy::up", folder="../index")]))
    assert [one["href"] for one in page.all("a")] == ["timelines/racy-one%20s0%231.html"]


def test_a_cell_says_by_letter_and_mark_what_its_colour_says(site):
    cases = [entry("a::1"), entry("a::2", "HUNG", as_recorded=False), entry("a::3", "SILENT", again=(entry(),))]
    page = site((session(1), [*cases, entry("a::4", "", sentence="needs a card")]))
    assert [one["class"] for one in page.cells()] == ["cell SURVIVED", "cell HUNG", "cell SILENT", "cell "]
    text = " ".join(page.text.split())
    assert re.search(r"a::1 .*?S a::2 .*?H! a::3 .*?X~ a::4 .*?\.", text)
    assert page.cells()[3]["title"].startswith("not tested; needs a card")


def test_the_cases_of_the_last_session_that_are_not_on_record_are_listed_with_their_pages(site, tmp_path):
    timelines = tmp_path / "site" / "timelines"
    timelines.mkdir(parents=True)
    (timelines / "a-bad.html").write_text("")
    bad = entry("a::bad", "HUNG", as_recorded=False, record="SURVIVED", sentence="rank 0 waits", folder="a-bad")
    before = entry("a::mended", "HUNG", as_recorded=False)
    page = site((session(1), [before]), (session(2), [entry("a::mended"), bad, entry("a::good")]))
    text = " ".join(page.text.split())
    assert "Not as on record in session 2 a::bad: HUNG, on record SURVIVED: rank 0 waits Cases" in text
    assert [one["href"] for one in page.all("a")] == ["timelines/a-bad.html"] * 2
    assert "Not as on record in" not in site((session(3), [entry("a::bad")])).text


def test_a_case_that_changed_is_marked_and_what_got_worse_is_listed(site):
    first = (session(1), [entry("a::same"), entry("a::worse")])
    page = site(first, (session(2), [entry("a::same"), entry("a::worse", "HUNG"), entry("a::new")]))
    rows = {one["data-name"]: one["data-changed"] for one in page.all("tr") if "data-name" in one}
    assert rows == {"a::same": "no", "a::worse": "yes", "a::new": "no"}
    assert "session 2 against session 1: 2 cases tested in both" in page.text
    assert "a::worse [kill, process]: SURVIVED became HUNG" in page.text


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium")
@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ("", ["a::changed", "a::same", "b::same"]),
        ("#text=SAME", ["a::same", "b::same"]),
        ("#family=disk", ["b::same"]),
        ("#changed=yes", ["a::changed"]),
        ("#family=nonsense&text=a::", ["a::changed", "a::same"]),
        ("#text=%3Cscript%3E", []),
    ],
)
def test_the_filters_leave_the_cases_that_are_asked_for(site, tmp_path, asked, left):
    cases = [entry("a::same"), entry("b::same", family="disk")]
    site((session(1), [*cases, entry("a::changed")]), (session(2), [*cases, entry("a::changed", "HUNG")]))
    address = f"{(tmp_path / 'site' / 'index.html').as_uri()}{asked}"
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run([*command, "--dump-dom", address], capture_output=True, text=True, timeout=120)
    page = Page(done.stdout)
    rows = [one for one in page.all("tr") if "data-name" in one]
    assert sorted(one["data-name"] for one in rows if "hidden" not in one) == left
    assert f"{len(left)} case" in page.text


def test_the_latest_sessions_have_a_column(site):
    page = site(*((session(1 + day % 28), [entry()]) for day in range(MOST_SESSIONS + 2)))
    heads = [one for one in page.all("th") if "title" in one]
    assert len(heads) == MOST_SESSIONS and f"#{MOST_SESSIONS + 2}" in page.text and "#2 " not in page.text


def test_a_history_without_results_is_one_line(tmp_path):
    remembered(tmp_path, (session(), [entry(outcome="")]))
    with pytest.raises(BreakrankError, match="no session that tested a case; run a scenario first"):
        write_site(read(tmp_path), tmp_path / "site")


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "site").touch()
    with pytest.raises(BreakrankError, match=r"the report cannot be written to .*/site: File exists"):
        write_site(remembered(tmp_path, (session(), [entry()])), tmp_path / "site")


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(BreakrankError, match=r"pip install 'pytest-breakrank\[report\]'"):
        check_templates()
