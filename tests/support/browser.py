"""A browser without a window, in which pages are tried: Debian's chromium by selenium."""

from __future__ import annotations

import base64
import importlib.util
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: Seconds after which a page is given up that has not drawn anything.
LIMIT_S = 120


def lacking() -> str:
    """Say what is missing to try pages, with the cure; empty if nothing is."""
    if importlib.util.find_spec("selenium") is None:
        return "there is no selenium: pip install 'pytest-breakrank[browser]'"
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        return "there is no browser: apt-get install chromium chromium-driver"
    return ""


@contextmanager
def opened(width: int = 1400, height: int = 900, scale: float = 1.0) -> Iterator[Any]:
    """Give a browser, which is closed behind it."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in (
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
        *(f"--window-size={width},{height}", f"--force-device-scale-factor={scale}"),
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def show(driver: Any, path: Path, place: str = "", dark: bool = False) -> None:
    """Open a page at a place (as `#t=1,2`), and wait until it is drawn."""
    from selenium.webdriver.support.ui import WebDriverWait

    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    driver.get("about:blank")
    driver.get_log("performance")
    driver.get(path.resolve().as_uri() + place)
    drawn = "return document.documentElement.dataset.drawn === 'yes' || (window.breakrank?.errors.length ?? 0) > 0"
    WebDriverWait(driver, LIMIT_S).until(lambda one: one.execute_script(drawn))


def picture(driver: Any, path: Path, width: int, height: int) -> None:
    """Write the upper part of the page that is open as a picture."""
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "clip": clip})
    path.write_bytes(base64.b64decode(taken["data"]))


def requests(driver: Any) -> list[str]:
    """Return the addresses that were asked for since the page was opened, beside the page itself."""
    sent = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = [one["params"]["request"]["url"] for one in sent if one["method"] == "Network.requestWillBeSent"]
    return [url for url in asked if not url.startswith("file://") or not url.endswith(".html")]
