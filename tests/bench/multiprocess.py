"""The body of `reduce_ddp` under torch's own test case for several processes, which spawns them for every test."""

from __future__ import annotations

import logging
import unittest

import torch.distributed as dist
from programs.reduce_ddp import train
from torch.testing._internal.common_distributed import MultiProcessTestCase

# The test case announces each process that it starts.
logging.getLogger(MultiProcessTestCase.__module__).setLevel(logging.WARNING)


class ReduceTest(MultiProcessTestCase):
    @property
    def world_size(self) -> int:
        return 2

    def setUp(self) -> None:
        super().setUp()
        self._spawn_processes()

    def test_reduce(self) -> None:
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size)
        train()
        dist.destroy_process_group()


def run() -> None:
    """Run the test once; raise its errors, if there are any."""
    result = unittest.TestResult()
    ReduceTest("test_reduce").run(result)
    if not result.wasSuccessful():
        raise AssertionError([text for _, text in result.errors + result.failures])
