"""Completion of the command line in a shell: each command and its options."""

from __future__ import annotations

import subprocess

import pytest

from breakrank.__main__ import main
from breakrank.commands import all_commands


@pytest.fixture
def script(capsys):
    def printed(shell):
        assert main(["completion", shell]) == 0
        return capsys.readouterr().out

    return printed


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["breakrank", "sh"], ["show"]),
        (["breakrank", "--v"], ["--version"]),
        (["breakrank", "check", "--re"], ["--reference", "--resume"]),
        (["breakrank", "list", "--j"], ["--json"]),
        (["breakrank", "sweep", "--dry"], ["--dry-run"]),
        (["breakrank", "show", "."], []),
    ],
)
def test_bash_completes_commands_and_options_and_leaves_files_to_itself(script, typed, words):
    words_typed = " ".join(f"'{word}'" for word in typed)
    code = f'COMP_WORDS=({words_typed}); COMP_CWORD={len(typed) - 1}; _breakrank; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-c", f"set -eu\n{script('bash')}\n{code}"], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == words


def test_bash_offers_every_command(script):
    code = "COMP_WORDS=(breakrank ''); COMP_CWORD=1; _breakrank; echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-c", f"{script('bash')}\n{code}"], capture_output=True, text=True, timeout=300)
    assert set(done.stdout.split()) == {"--version", *all_commands()}


def test_zsh_takes_the_functions_of_bash(script):
    said = script("zsh")
    assert said.endswith(script("bash")) and "bashcompinit" in said


def test_fish_has_a_line_for_each_command_and_option(script):
    lines = script("fish").splitlines()
    for name, command in all_commands().items():
        (line,) = [line for line in lines if f" -a {name} -d " in line]
        assert command.HELP.split("'")[0] in line
    assert "complete -c breakrank -n '__fish_seen_subcommand_from sweep' -l dry-run" in lines
