"""The first code of ours on a node: it reads the archive and the settings from its stdin, and starts the guard.

It is given to `python3 -c`, with the two sizes, by whatever reaches the node: ssh, or a file for the stdin.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from breakrank.nodes.archive import MAIN, archive

#: Old interpreters read this, too: it has to say that they are old.
_CODE = f"""
import os, sys
if sys.version_info < (3, 9):
    sys.exit("breakrank: python3 is %d.%d there; 3.9 or newer is needed" % sys.version_info[:2])
import io, json, tempfile, zipfile
def read(size):
    data = b""
    while len(data) < size:
        part = os.read(0, min(size - len(data), 1 << 20))
        if not part:
            sys.exit("breakrank: the machine that runs pytest hung up")
        data += part
    return data
sent, settings = [read(int(size)) for size in sys.argv[1:]]
files, naming = zipfile.ZipFile(io.BytesIO(sent)), dict()
exec(files.read("breakrank/host/session_name.py"), naming)
session = naming["session_id"]()
folder = os.path.join(tempfile.gettempdir(), "breakrank-" + session)
os.mkdir(folder, 0o700)
deputy, agent = os.path.join(folder, "deputy"), os.path.join(folder, "agent-importlib_bootstrap")
ours = [name for name in files.namelist() if name.startswith("breakrank/")]
files.extractall(deputy, ours)
files.extractall(agent, sorted(set(files.namelist()) - set(ours)))
sys.dont_write_bytecode = True
sys.path[:0] = [deputy, agent]
from {MAIN} import main
sys.exit(main(json.loads(settings), session, folder))
"""


def start(settings: dict[str, Any]) -> tuple[str, bytes]:
    """Return the command line for the shell of a node, and what is to come to its stdin before all else."""
    sent, told = archive(), json.dumps(settings).encode()
    return f"exec python3 -c {shlex.quote(_CODE)} {len(sent)} {len(told)}", sent + told
