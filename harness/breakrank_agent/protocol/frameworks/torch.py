"""The profile of PyTorch, with what is built upon it."""

from __future__ import annotations

from breakrank_agent.protocol.frameworks import Framework, KnownWait

_IN_DDPS_CONSTRUCTOR = ("_verify_param_shape_across_processes", "_sync_module_states")

FRAMEWORK = Framework(
    name="torch",
    cure="pip install torch (the CPU build: pip install uv, then uv pip install --torch-backend=cpu torch)",
    modules=("torch",),
    warm=("torch", "torch.distributed", "torch.nn.parallel", "torch.utils.data", "torch._dynamo"),
    late=("ONEDNN_PRIMITIVE_CACHE_CAPACITY",),
    spoken={
        "allreduce_": "all_reduce",
        "allreduce_coalesced_": "all_reduce_coalesced",
        "broadcast_": "broadcast",
        "allgather_": "all_gather",
        "_allgather_base_": "all_gather_into_tensor",
        "allgather_into_tensor_coalesced_": "all_gather_into_tensor",
        "reduce_scatter_": "reduce_scatter",
        "_reduce_scatter_base_": "reduce_scatter_tensor",
        "reduce_scatter_tensor_coalesced_": "reduce_scatter_tensor",
        "reduce_": "reduce",
        "gather_": "gather",
        "scatter_": "scatter",
        "alltoall_": "all_to_all",
        "alltoall_base_": "all_to_all_single",
        "recv_": "recv",
        "recv_any_source_": "recv",
        "monitored_barrier_": "monitored_barrier",
    },
    backends=("gloo", "store", "ray"),
    packages=(
        *("torch", "torchdata", "lightning", "pytorch_lightning", "transformers", "accelerate", "deepspeed"),
        "horovod",
    ),
    collectives=("torch/distributed/distributed_c10d.py", "torch/distributed/_functional_collectives.py"),
    helpers={
        ("torch/utils/data/_utils/worker.py", "_worker_loop"): "a DataLoader worker",
        ("torch/_inductor/compile_worker/__main__.py", "main"): "a compile worker",
    },
    waits=(
        KnownWait("torch/distributed/elastic/agent/", (), "launcher", "torchrun"),
        KnownWait("torch/multiprocessing/spawn.py", ("join",), "launcher", "mp.spawn"),
        KnownWait("torch/nn/parallel/distributed.py", ("_sync_buffers",), "meeting", "DDP's buffer broadcast"),
        KnownWait("torch/distributed/utils.py", _IN_DDPS_CONSTRUCTOR, "meeting", "DDP's constructor"),
        KnownWait("torch/distributed/rendezvous.py", (), "meeting", "the rendezvous"),
        KnownWait("horovod/torch/mpi_ops.py", ("synchronize",), "meeting", "horovod's synchronize"),
        KnownWait("torch/utils/data/dataloader.py", ("_try_get_data", "_get_data"), "other", "DataLoader for a worker"),
        KnownWait("torch/autograd/graph.py", ("_engine_run_backward",), "backward", "backward"),
        KnownWait("torch/cuda/", ("synchronize",), "other", "synchronize for the device"),
        KnownWait("torch/serialization.py", ("save", "load"), "other", "saving or loading"),
    ),
)
