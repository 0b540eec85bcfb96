"""Two nodes of torchrun on one machine, of which one is lost and another joins, as the ranks' files ask for it.

two_nodes.py SCRIPT ARGUMENT... The store of the rendezvous lies here, so that each node may go.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch.distributed as dist

#: The seconds after which a silent node is taken for lost, and those that the others wait for more nodes.
CONF = "is_host=0,last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"


def node(port):
    """Start a node: torchrun with one rank, in a world of one node or two."""
    options = ["--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-backend=c10d", "--rdzv-id=job"]
    options += [f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-conf={CONF}", "--local-addr=127.0.0.1"]
    # With a shared store, a node that stays the first one tells its address in its first round alone: one that joins
    # later waits for it in vain (torch 2.13).
    env = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    return subprocess.Popen([sys.executable, "-m", "torch.distributed.run", *options, *sys.argv[1:]], env=env)


def await_file(name, nodes):
    """Wait until a rank has written a file, and return what is in it; None if all nodes have ended before."""
    while not Path(name).exists():
        if all(one.poll() is not None for one in nodes):
            return None
        time.sleep(0.05)
    return Path(name).read_text()


def main():
    """Start two nodes; end the one that the file `lost` names, and start a third when there is a file `wanted`."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    nodes = [node(store.port), node(store.port)]
    lost = await_file("lost", nodes)
    if lost is not None:
        gone = next(one for one in nodes if one.pid == int(lost))
        nodes.remove(gone)
        # It ends its rank and says nothing to the rendezvous, as a node that is preempted.
        gone.send_signal(signal.SIGTERM)
        gone.wait()
        if await_file("wanted", nodes) is not None:
            nodes.append(node(store.port))
    sys.exit(max(one.wait() for one in nodes))


if __name__ == "__main__":
    main()
