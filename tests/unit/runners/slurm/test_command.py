"""A command is Slurm's if it is a program of Slurm's, or a shell script with a line that begins with one."""

from __future__ import annotations

import pytest

from breakrank.runners.slurm.command import is_slurm

SCRIPT = "#!/bin/sh\nexport A=1\nif true; then\n    srun python train.py\nfi\n"


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        ("srun -n 2 python train.py", True),
        ("/usr/bin/sbatch --wait job.sh", True),
        ("salloc -N 2 srun python train.py", True),
        ("bash job.sh", True),
        ("bash -e job.sh", True),
        ("./job.sh", True),
        ("bash other.sh", False),
        ("bash missing.sh", False),
        ("torchrun --nproc-per-node=2 srun.py", False),
        ("python train.py srun", False),
        ("", False),
    ],
)
def test_a_command_is_known_by_what_it_calls(tmp_path, command, is_one):
    (tmp_path / "job.sh").write_text(SCRIPT)
    (tmp_path / "other.sh").write_text("# srun python train.py\npython train.py  # no srun\n")
    assert is_slurm(command.split(), tmp_path) is is_one


def test_a_line_for_the_shell_is_read_as_a_script(tmp_path):
    assert is_slurm(["sh", "-c", "cd x\nsrun python train.py"], tmp_path)
    assert not is_slurm(["sh", "-c", "python train.py"], tmp_path)
