"""Pages in a real browser: drawn without an error or a request, and used by mouse and keyboard."""

from __future__ import annotations

import pytest
from support import browser, pictured
from support.lasting import soak
from support.synthetic import BARS, write_hang

from breakrank.files.bounded import plain
from breakrank.timeline.draw import draw
from breakrank.timeline.page import write_page
from breakrank.timeline.reading import read_run

pytestmark = pytest.mark.skipif(bool(browser.lacking()), reason=browser.lacking() or "a browser is there")
#: The most bytes of the page of 64 ranks that made 1,000 steps.
MOST_BYTES = 5_000_000


@pytest.fixture(scope="module")
def driver():
    """Yield one browser for all pages."""
    with browser.opened() as made:
        yield made


@pytest.fixture(scope="session")
def pages(once_a_session, tmp_path_factory):
    """Return a function that gives a saved run and its page."""
    folder, made = tmp_path_factory.mktemp("pages"), {}

    def of(name):
        if name not in made:
            saved = pictured.make(once_a_session, name)
            made[name] = saved, write_page(saved.folder, folder / f"{name}.html")
        return made[name]

    return of


@pytest.fixture(scope="session")
def once_a_session(once):
    return once


@pytest.fixture
def hang(driver, pages):
    """Open the page of the hang."""
    browser.show(driver, pages("hang")[1])
    return driver


def ask(driver, script, *values):
    return driver.execute_script(f"return {script}", *values)


def settled(driver):
    """Wait until what was asked for is painted, and the address is written."""
    driver.execute_async_script(
        "const done = arguments[0]; setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 250)"
    )


def press(driver, *keys):
    """Press keys on the chart."""
    from selenium.webdriver.common.action_chains import ActionChains

    driver.execute_script("if (!document.activeElement.closest('.stage')) document.querySelector('.stage').focus()")
    ActionChains(driver).send_keys(*keys).perform()
    settled(driver)


def point_of(driver, bar):
    """Return the point of the window in the middle of a bar."""
    script = (
        "(() => { const {chart} = breakrank; const box = chart.boxOf({bar: arguments[0]});"
        " const stage = chart.stage.getBoundingClientRect();"
        " const left = Math.max(box.left, 172), right = Math.min(box.right, stage.width - 10);"
        " return [stage.x + (left + right) / 2, stage.y + box.y + box.high / 2]; })()"
    )
    return ask(driver, script.replace("arguments[0]", str(bar)))


def mouse(driver, kind, x, y, **more):
    driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})


def click(driver, x, y):
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        mouse(driver, kind, x, y, button="left", clickCount=1)
    settled(driver)


def never(driver):
    """Return the positions of the calls that never completed."""
    return ask(driver, "breakrank.bars.filter(b => b.ending === 'never' && b.kind === 'collective').map(b => b.index)")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", pictured.NAMES)
def test_a_page_shows_the_model_without_an_error_or_a_request(driver, pages, name, dark):
    saved, path = pages(name)
    browser.show(driver, path, dark=dark)
    printed = read_run(saved.folder).printed
    picture = draw(saved.history, printed=printed)
    assert ask(driver, "breakrank.errors") == []
    assert [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    assert browser.requests(driver) == []
    lanes = [[lane.attempt, lane.rank, lane.thread] for lane in picture.lanes]
    assert ask(driver, "breakrank.lanes.map(l => [l.attempt, l.rank, l.thread])") == lanes
    endings = [bar.ending for bar in picture.bars]
    assert ask(driver, "[...breakrank.bars].map(b => b.ending)") == endings
    assert ask(driver, "breakrank.marks.length") == len(picture.marks)
    lines = sorted(line.text[:79] for streams in printed.values() for kept in streams.values() for line in kept)
    said = ask(driver, "breakrank.marks.filter(m => m.kind === 'output').map(m => m.event.text.slice(0, 79))")
    assert sorted(said) == [plain(line) for line in lines]
    assert ask(driver, "breakrank.drawn.bars") > 0
    assert saved.verdict["outcome"] in ask(driver, "document.querySelector('.outcome').textContent")


def test_a_page_of_a_hang_says_what_proved_it_and_what_each_thread_did(hang, pages):
    (event,) = pages("hang")[0].history.seen("hung")
    assert "each of their threads stood still in" in ask(hang, "document.querySelector('#proof').textContent")
    rows = ask(hang, "[...document.querySelectorAll('#threads tr')].map(r => [...r.cells].map(c => c.textContent))")
    assert rows[0] == ["rank", "thread", "number", "does", "in"]
    assert {row[0] for row in rows[1:]} == {f"rank {n}" for n in event["ranks"]} and "futex" in {
        row[4] for row in rows[1:]
    }


def test_a_hang_says_on_its_bars_who_waits_for_whom(hang):
    labels = ask(hang, "[...document.querySelectorAll('.labels .bad')].map(l => l.textContent)")
    assert len([label for label in labels if "waits for rank" in label and "never completed" in label]) == 3
    assert ask(hang, "document.querySelectorAll('#waits circle').length") == 3


def test_a_click_on_a_bar_shows_its_event_and_the_calls_of_its_peers(hang):
    bar = never(hang)[0]
    click(hang, *point_of(hang, bar))
    text = ask(hang, "document.getElementById('event').innerText")
    event = ask(hang, f"breakrank.bars.at({bar}).event")
    assert "never completed" in text and f'"n": {event["n"]}' in text
    assert ask(hang, "document.querySelectorAll('#event table.compared').length") == 1


def test_a_bar_below_the_mouse_is_said_in_words(hang):
    x, y = point_of(hang, never(hang)[0])
    mouse(hang, "mouseMoved", x, y)
    settled(hang)
    assert "waits for rank" in ask(hang, "document.querySelector('.tip:not([hidden])').textContent")


def test_the_wheel_zooms_around_the_mouse_and_a_drag_moves(hang):
    x, y = point_of(hang, never(hang)[0])
    whole = ask(hang, "breakrank.view")
    mouse(hang, "mouseWheel", x, y, deltaX=0, deltaY=-400)
    settled(hang)
    near = ask(hang, "breakrank.view")
    assert near["to"] - near["from"] < whole["to"] - whole["from"]
    assert whole["from"] < near["from"] and near["to"] <= whole["to"]
    mouse(hang, "mousePressed", x, y, button="left", clickCount=1)
    mouse(hang, "mouseMoved", x + 150, y, button="left")
    mouse(hang, "mouseReleased", x + 150, y, button="left", clickCount=1)
    settled(hang)
    moved = ask(hang, "breakrank.view")
    assert moved["from"] < near["from"]
    assert moved["to"] - moved["from"] == pytest.approx(near["to"] - near["from"])


def test_arrows_go_from_bar_to_bar_and_enter_shows_the_event(hang):
    from selenium.webdriver.common.keys import Keys

    press(hang, Keys.HOME)
    assert ask(hang, "breakrank.chart.focus.bar") == 0
    press(hang, Keys.ARROW_RIGHT)
    assert ask(hang, "breakrank.chart.focus.bar") == 1
    assert "rank 0" in ask(hang, "document.activeElement.getAttribute('aria-label')")
    press(hang, Keys.ARROW_DOWN)
    assert "rank 1" in ask(hang, "document.activeElement.getAttribute('aria-label')")
    press(hang, Keys.ENTER)
    assert "rank 1" in ask(hang, "document.querySelector('#event:not([hidden]) p').textContent")


def test_n_goes_to_what_stands_out_and_plus_and_0_zoom(hang):
    press(hang, "+")
    view = ask(hang, "breakrank.view")
    assert view["to"] - view["from"] < ask(hang, "breakrank.chart.size")
    press(hang, "0")
    assert ask(hang, "breakrank.view.to - breakrank.view.from") == ask(hang, "breakrank.chart.size")
    press(hang, "n")
    assert ask(hang, "breakrank.chart.focus.bar") in never(hang)


def test_a_place_is_in_the_address_and_is_found_again(hang, driver, pages):
    press(hang, "+")
    place, view = ask(hang, "location.hash"), ask(hang, "breakrank.view")
    assert place.startswith("#t=")
    browser.show(driver, pages("hang")[1], place)
    again = ask(driver, "breakrank.view")
    assert (again["from"], again["to"]) == (pytest.approx(view["from"], abs=0.1), pytest.approx(view["to"], abs=0.1))


def test_a_race_begins_on_the_axis_of_turns_with_its_two_accesses_joined(driver, pages):
    browser.show(driver, pages("race")[1])
    assert ask(driver, "breakrank.view.axis") == "turn" and ask(driver, "breakrank.links.length") > 0
    one, other = ask(driver, "[breakrank.links[0].one, breakrank.links[0].other].map(n => breakrank.marks.at(n).turn)")
    view = ask(driver, "breakrank.view")
    assert view["from"] <= one < other <= view["to"]
    assert "≠ not ordered" in ask(driver, "[...document.querySelectorAll('.labels .differs')].map(l => l.textContent)")
    ask(driver, "document.getElementById('turns').click()")
    settled(driver)
    assert ask(driver, "breakrank.view.axis") == "time" and ask(driver, "breakrank.drawn.bars") > 0


def test_the_control_is_folded_and_drawn_when_it_is_opened(driver, pages):
    browser.show(driver, pages("kill")[1])
    assert ask(driver, "document.querySelectorAll('details.control canvas').length") == 0
    ask(driver, "document.querySelector('details.control summary').click()")
    settled(driver)
    labels = "document.querySelectorAll('details.control .labels span').length"
    assert ask(driver, "document.querySelectorAll('details.control canvas').length") == 1
    assert ask(driver, labels) > 0 and ask(driver, "breakrank.errors") == []


@pytest.mark.parametrize("ranks", [16, soak(64)])
def test_many_ranks_and_1000_steps_are_a_small_page_that_says_what_it_leaves_out(driver, tmp_path, ranks):
    path = write_page(write_hang(tmp_path / "run", ranks, 1000), tmp_path / "big.html")
    assert path.stat().st_size < MOST_BYTES * ranks / 64
    browser.show(driver, path)
    assert ask(driver, "breakrank.errors") == [] and ask(driver, "breakrank.lanes.length") == ranks
    # In the last step nobody comes to the optimizer, and one rank not to the collective.
    assert ask(driver, "breakrank.bars.length") == ranks * 1000 * BARS - ranks - 1
    assert "have their whole events on this page" in ask(driver, "document.body.innerText")
    assert len(never(driver)) == ranks - 1
    ask(driver, "document.getElementById('zoom-all').click()")
    settled(driver)
    drawn = ask(driver, "breakrank.drawn")
    assert drawn["merged"] > 0 and drawn["bars"] < ask(driver, "breakrank.bars.length") / 3


def test_70_ranks_have_lanes_for_some_and_heat_for_the_others(driver, tmp_path):
    browser.show(driver, write_page(write_hang(tmp_path / "run", 70, 5), tmp_path / "many.html"))
    shown = ask(driver, "breakrank.lanes.map(l => l.rank)")
    assert 1 in shown and len(shown) < 64
    assert ask(driver, "breakrank.chart.model.heat.ranks") == 70 - len(shown)
    assert f"{70 - len(shown)} more ranks" in ask(driver, "document.querySelector('.names').innerText")
