"""The imports of the checks' zygote: those of every zygote, and a note of each fork, taken in the zygote itself."""

from __future__ import annotations

import importlib
import json
import os

import torch

from breakrank_agent.protocol.frameworks import all_frameworks

for _name in all_frameworks()["torch"].warm:
    importlib.import_module(_name)


def _note() -> None:
    with open(os.environ["GPU_FORKS"], "a") as file:
        file.write(json.dumps({"pid": os.getpid(), "initialized": torch.cuda.is_initialized()}) + "\n")


os.register_at_fork(before=_note)
