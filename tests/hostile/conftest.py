"""Fixtures of the hostile tests: a watched job, and test reports that can be sent with any folder name in them."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from support.watched import watch

__all__ = ["watch"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Spell bytes out that are no UTF-8: pytest-xdist cannot send them, and ends if a test fails with one."""
    report = yield
    if isinstance(report.longrepr, tuple):
        return report
    text = report.longreprtext
    if text != _sendable(text):
        report.longrepr = _sendable(text)
    report.sections = [(name, _sendable(content)) for name, content in report.sections]
    return report


def _sendable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
