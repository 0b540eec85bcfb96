"""JUnit's file: the explanations of a test's launches stand in it as what the test has said."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

#: The attribute of a report, which xdist sends along, with what is said of a test's launches.
SAID = "breakrank_said"


class Explanations:
    """Writes into JUnit's file, in the process that writes that."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the explanation before the test is over."""
        from _pytest.junitxml import xml_key

        said = getattr(report, SAID, "")
        xml = self._config.stash.get(xml_key, None)
        if said and xml is not None:
            node: Any = ElementTree.Element("system-out")
            # XML has no letter for the other control characters, and a lone surrogate is none.
            node.text = "".join(c if c.isprintable() or c in "\t\n" else ascii(c)[1:-1] for c in said)
            xml.node_reporter(report).append(node)
