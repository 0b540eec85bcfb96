"""Pages of runs, which a session writes: `--scenario-html` and the ini option `scenario_html`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from breakrank.errors import BreakrankError
from breakrank.plugin.command_line import PREFIX, given


@dataclass(frozen=True)
class Pages:
    """The folder of the pages (None: no pages are written), and whether `every` run gets one, not only a failed one."""

    folder: Path | None = None
    every: bool = False

    def write(self, run: Path) -> list[str]:
        """Write the page of a run; return its path in a list, or why there is none. Nothing if no page is asked for."""
        from breakrank.timeline.page import write_page

        if self.folder is None:
            return []
        try:
            return [str(write_page(run, self._page(self.folder, run)))]
        except BreakrankError as error:
            # The verdict of the run stands, whatever becomes of its page.
            return [f"(there is no page: {error})"]

    def write_once(self, run: Path) -> list[str]:
        """Do the same, unless the page of this run is there already."""
        return self.of(run) or self.write(run)

    def of(self, run: Path) -> list[str]:
        """Return the path of the page of a run in a list; nothing if it was not written."""
        if self.folder is None:
            return []
        page = self._page(self.folder, run)
        try:
            # A name is given again once its run was removed: the page may be that of an older run.
            written = os.stat(page).st_mtime >= os.stat(run / "verdict.json").st_mtime
        except OSError:
            return []
        return [str(page)] if written and page.is_file() else []

    @staticmethod
    def _page(folder: Path, run: Path) -> Path:
        return folder / f"{run.name}.html"


def read_pages(config: pytest.Config) -> Pages:
    """Return the pages that are asked for, their folder made. Raises `BreakrankError`."""
    from breakrank.timeline.page import check_templates

    option, ini = given(config, "-html"), str(config.getini("scenario_html")).strip()
    every = bool(given(config, "-html-all"))
    if not option and not ini:
        if every:
            raise BreakrankError(f"{PREFIX}-html-all needs the folder of the pages: add {PREFIX}-html=DIR")
        return Pages()
    check_templates()
    folder = config.invocation_params.dir / option if option else config.rootpath / ini
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BreakrankError(f"{folder} cannot be a folder of pages: {error.strerror}") from None
    return Pages(folder, every)
