"""Make the screenshots of the documents: `make screenshots` runs a scenario that hangs, and has a browser draw it.

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

DOCS = Path(__file__).parents[2] / "docs"
#: The case that is shown, and the picture's size in pixels.
CASE, WIDE, HIGH = "skipped_collective::torch-then-barrier", 1200, 470


def main() -> int:
    """Write docs/timeline.png and docs/timeline-dark.png; return the exit code."""
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
