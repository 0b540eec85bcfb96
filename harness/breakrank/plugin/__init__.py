"""The pytest plugin. It is light: without a `--scenario` option it adds its options, its marker and nothing else."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from breakrank.plugin import command_line, options, own_modules
from breakrank.plugin.usage_errors import usage_errors

if TYPE_CHECKING:
    from breakrank.plugin.launch import Launcher


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini options; the command line's come later, see `pytest_load_initial_conftests`."""
    command_line.add_ini(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    """Add the options after every other plugin and conftest had its turn.

    Another plugin may own `--scenario` (PyPI's `pytest-scenario` does). The plugin that registers an option second
    fails, so we are always second, and print the cure in one line; a run that uses none of our options goes on.
    """
    own_modules.find_first(early_config.add_cleanup)
    command_line.hide_values(early_config, parser, args)
    result = yield
    command_line.add_command_line(early_config, parser, args)
    return result


@pytest.fixture
def launch(request: pytest.FixtureRequest) -> Launcher:
    """Launch a training script as ranks, strike it, and judge it.

    `launch("train.py", ranks=2, faults=[faults.Kill() @ at(rank=1, step=3)], restarts=1)` returns what came of it:
    `run.survived`, `run.detected`, `run.outcome`, `run.findings`, `run.blame`, `run.folder`, `run.explain()`.
    """
    from breakrank.plugin.launch import make_launcher

    return make_launcher(request)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Answer `--scenario-list` and `--scenario-doctor` before anything is collected."""
    if not options.asks_for_text(config):
        return None
    from breakrank.host.user_limits import check_proc

    with usage_errors():
        check_proc()
    from breakrank.plugin.listing import show_text

    with usage_errors():
        return show_text(config)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and all the rest only if a scenario is asked for."""
    config.addinivalue_line("markers", "scenario: an item that Breakrank runs (added by itself)")
    if not hasattr(config, "workerinput"):
        _add_readers(config)
    if not options.asked_for(config):
        with usage_errors():
            options.check_unused(config)
        return
    from breakrank.host.user_limits import check_proc

    with usage_errors():
        # Even what we are made of cannot be imported without.
        check_proc()
    from breakrank.plugin.session_state import activate

    with usage_errors():
        activate(config)


def _add_readers(config: pytest.Config) -> None:
    """Register the writers for other programs: of JUnit's file, and for GitHub where its actions run us."""
    if config.getoption("xmlpath", None):
        from breakrank.plugin.junit import Explanations

        config.pluginmanager.register(Explanations(config), "breakrank-junit")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        from breakrank.plugin.github import Annotations

        config.pluginmanager.register(Annotations(config.rootpath), "breakrank-github")
