"""Training in which no rank holds all of the model, in each way that torch divides one; and tensors of odd kinds."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("BREAKRANK_STEPS", "3"))


def _train(model, forward=None, seed=0):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, foreach=False)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(STEPS):
        batch, wanted = torch.randn(8, 16, generator=generator), torch.randn(8, 16, generator=generator)
        optimizer.zero_grad()
        if forward is None:
            functional.mse_loss(model(batch), wanted).backward()
        else:
            forward(batch, wanted)
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


def _begin():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    return dist.get_rank(), dist.get_world_size()


def flat_shards():
    """Shard flat parameters, as FSDP did first."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    rank, _ = _begin()
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
    _train(FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True), seed=rank)


def columns_and_rows():
    """Shard two layers by their columns and rows; the third is a replica on each rank."""
    _columns_and_rows(lambda model, rank: None)


def columns_and_rows_apart():
    """Broken: one rank begins with another third layer."""
    _columns_and_rows(lambda model, rank: nn.init.constant_(model[3].weight, 1.0 + rank))


def _columns_and_rows(change):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    rank, world = _begin()
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16), nn.LayerNorm(16))
    parallelize_module(model, init_device_mesh("cpu", (world,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    change(model, rank)
    _train(model)


def stages():
    """Give each rank one stage of a pipeline, whose parameters have the names of the other's."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    rank, world = _begin()
    torch.manual_seed(rank)
    module = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    schedule = ScheduleGPipe(PipelineStage(module, rank, world, torch.device("cpu")), 2, loss_fn=functional.mse_loss)

    def forward(batch, wanted):
        if rank == 0:
            schedule.step(batch)
        else:
            schedule.step(target=wanted)

    _train(module, forward)


def saved_in_parts():
    """Shard a model (FSDP2), and save after each step: in the background, and at once where a checkpoint was found."""
    import torch.distributed.checkpoint as sharded
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    def state_of(step):
        parts = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
        return {**parts, "step": torch.tensor(step)}

    rank, world = _begin()
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    optimizer, begin = torch.optim.AdamW(model.parameters(), lr=0.01), 0
    whole = sorted(file.parent for file in Path().glob("step-*/.metadata"))
    if whole:
        state = state_of(0)
        sharded.load(state, checkpoint_id=whole[-1])
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        begin = int(state["step"])
    for step in range(begin + 1, STEPS + 1):
        torch.manual_seed(10 * step + rank)
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        if whole:
            sharded.save(state_of(step), checkpoint_id=f"step-{step}")
        else:
            sharded.async_save(state_of(step), checkpoint_id=f"step-{step}").result()
    dist.barrier()
    dist.destroy_process_group()


class _Sparse(Dataset):
    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        return torch.eye(4)[index].to_sparse()


def odd_tensors():
    """Load sparse tensors, and train beside a parameter that has no memory and one that is sparse."""
    _begin()
    table = nn.Embedding(8, 4, sparse=True)
    nowhere = nn.Parameter(torch.empty(3, device="meta"))
    thin = nn.Parameter(torch.eye(3).to_sparse(), requires_grad=False)
    optimizer = torch.optim.SGD([*table.parameters(), nowhere, thin], lr=0.1)
    for rows in DataLoader(_Sparse(), batch_size=None):
        optimizer.zero_grad()
        table(rows.indices()[0]).sum().backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()
