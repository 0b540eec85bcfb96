"""Make the pictures of the documents: `make screenshots` runs scenarios, and draws a page and a terminal.

The browser is the one that the tests of pages use: `apt-get install chromium chromium-driver`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from breakrank.timeline.page import write_page
from support import browser
from support.screens import written_on
from support.terminal_picture import drawn

DOCS = Path(__file__).parents[2] / "docs"
#: The case that is shown, and the picture's size in pixels.
CASE, WIDE, HIGH = "skipped_collective::torch-then-barrier", 1200, 470


#: The scenario whose table is shown, and the columns of its terminal.
TABLE, COLUMNS = "race_condition", 110


def terminal(folder: Path) -> None:
    """Write docs/verdict.svg: the table of a scenario, and the explanation of a hang."""
    python, runs = [sys.executable, "-m"], folder / "runs"
    options = [f"--scenario={TABLE}", "--scenario-framework=torch"]
    table = written_on(COLUMNS, [*python, "pytest", *options, "-o", f"scenario_runs={runs}"], DOCS.parent)
    first, last = ("= breakrank =", "as recorded, 0 changed")
    rows = table.splitlines()
    begin = next(n for n, row in enumerate(rows) if first in row)
    end = next(n for n, row in enumerate(rows) if last in row)
    name = next(path.parent.name for path in runs.glob("skipped_collective*/verdict.json"))
    shown = written_on(COLUMNS, [*python, "breakrank", "show", name, "--runs", str(runs)], DOCS.parent).splitlines()
    shown = shown[: next(n for n, row in enumerate(shown) if row.strip() == "files:")]
    typed = [f"\x1b[36m$ pytest {' '.join(options)}\x1b[0m", f"\x1b[36m$ breakrank show {name}\x1b[0m"]
    picture = drawn("A table and a verdict in a terminal", [typed[0], *rows[begin + 1 : end + 1], "", typed[1], *shown])
    (DOCS / "verdict.svg").write_text(picture, encoding="utf-8")
    print(f"{DOCS / 'verdict.svg'}: {len(picture.encode())} bytes")


def main() -> int:
    """Write docs/timeline.png, docs/timeline-dark.png and docs/verdict.svg; return the exit code."""
    lack = browser.lacking()
    if lack:
        sys.stderr.write(f"screenshots: {lack}\n")
        return 1
    with tempfile.TemporaryDirectory() as folder, browser.opened(WIDE, HIGH + 150) as driver:
        runs = Path(folder, "runs")
        command = [sys.executable, "-m", "pytest", "-q", f"--scenario={CASE}", "-o", f"scenario_runs={runs}"]
        subprocess.run(command, check=True, cwd=DOCS.parent, stdout=subprocess.DEVNULL)
        (run,) = (path.parent for path in runs.glob("*/verdict.json"))
        page = write_page(run, Path(folder, "page.html"))
        for name, dark in (("timeline.png", False), ("timeline-dark.png", True)):
            browser.show(driver, page, dark=dark)
            browser.picture(driver, DOCS / name, WIDE, HIGH)
            print(f"{DOCS / name}: {(DOCS / name).stat().st_size} bytes")
        terminal(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
