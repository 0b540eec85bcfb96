"""A small GPT on a made-up language, with gradients accumulated over micro-batches and reduced at the last one."""

import argparse
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

LETTERS, CONTEXT, WIDTH, HEADS = 16, 8, 16, 2


class Text(Dataset):
    """Pieces of a text in which each letter follows from the one before it, mostly."""

    def __init__(self, pieces):
        generator = torch.Generator().manual_seed(2)
        letters = [0]
        for noise in torch.randint(LETTERS, (pieces * CONTEXT,), generator=generator).tolist():
            letters.append((letters[-1] * 5 + 3) % LETTERS if noise else noise)
        self.letters = torch.tensor(letters)

    def __len__(self):
        return (len(self.letters) - 1) // CONTEXT

    def __getitem__(self, index):
        start = index * CONTEXT
        return self.letters[start : start + CONTEXT], self.letters[start + 1 : start + CONTEXT + 1]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.attention(self.before(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.feed(self.between(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.letter, self.place = nn.Embedding(LETTERS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, LETTERS)

    def forward(self, letters, targets):
        x = self.blocks(self.letter(letters) + self.place.weight)
        return functional.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--accumulate", type=int, default=2)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(4)
    data = Text(4 * dist.get_world_size() * options.accumulate * options.steps)
    batches = iter(DataLoader(data, batch_size=4, sampler=DistributedSampler(data)))
    model = DistributedDataParallel(GPT())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    total = 0.0
    for _ in range(options.steps):
        for micro in range(options.accumulate):
            letters, targets = next(batches)
            last = micro == options.accumulate - 1
            with contextlib.nullcontext() if last else model.no_sync():
                loss = model(letters, targets)
                (loss / options.accumulate).backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    if dist.get_rank() == 0:
        print(f"mean loss {total / (options.steps * options.accumulate):.6f}", flush=True)
        torch.save(model.module.state_dict(), "gpt.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
