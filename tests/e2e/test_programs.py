"""The programs, run for real by two ranks without an agent: the sound ones cope, the broken ones do what they claim.

Ranks are forked from a server that has imported torch, so that each is a fresh process and starts fast.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import breakrank_agent
from breakrank.fixtures import data

pytest.importorskip("torch._C", reason="the programs need torch")

RANKS, STEPS = 2, 8
PATH = [str(Path(data.__file__).parent / "programs"), str(Path(breakrank_agent.__file__).parents[1])]
SERVER = multiprocessing.get_context("forkserver")
