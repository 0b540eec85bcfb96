"""Scripts that have Ray start their ranks, and those that join a cluster that is there."""

from __future__ import annotations

import pytest

from breakrank.runners.ray.command import is_ray, joins_cluster


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("import ray\n", True),
        ("if True:\n    from ray.train import ScalingConfig\n", True),
        ("import rays\nfrom rayon import ray\n", False),
        ("# import ray\n", False),
    ],
)
def test_a_script_that_imports_ray_is_rays(tmp_path, text, is_one):
    (tmp_path / "driver.py").write_text(text)
    assert is_ray(["python", "driver.py", "--epochs", "2"], tmp_path) is is_one


def test_a_command_without_a_script_that_is_there_is_none(tmp_path):
    assert not is_ray(["python", "-c", "import ray"], tmp_path)
    assert not is_ray(["python", "gone.py"], tmp_path)


@pytest.mark.parametrize(
    ("call", "environment", "joins"),
    [
        ("ray.init()", {}, False),
        ('ray.init(address="auto")', {}, True),
        ("ray.init(num_cpus=2, address=ADDRESS)", {}, True),
        ('ray.init("10.0.0.1:6379")', {}, True),
        ('ray.init(address="local")', {}, False),
        ('ray.init("local")', {}, False),
        ("ray.init(address=None)", {}, False),
        ("ray.init()", {"RAY_ADDRESS": "10.0.0.1:6379"}, True),
        ('ray.init(address="auto")', {"RAY_ADDRESS": "local"}, False),
    ],
)
def test_a_script_joins_a_cluster_as_ray_decides_it(tmp_path, call, environment, joins):
    (tmp_path / "driver.py").write_text(f"import ray\n{call}\n")
    environment = {"RAY_TMPDIR": str(tmp_path), **environment}
    assert joins_cluster(["python", "driver.py"], tmp_path, environment) is joins


def test_a_cluster_that_was_started_on_this_machine_is_joined(tmp_path):
    (tmp_path / "driver.py").write_text("import ray\nray.init()\n")
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:6379")
    assert joins_cluster(["python", "driver.py"], tmp_path, {"RAY_TMPDIR": str(tmp_path)})
