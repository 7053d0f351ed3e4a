"""The peer of `lockstep bench step`: the same layers, batch and update in Python's DistributedDataParallel over Gloo.

Started by a launcher (RANK and the rest in the environment). Rank 0 prints one JSON object.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from pytorch_models import MODELS
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True, choices=MODELS)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--seq", type=int, default=64)
parser.add_argument("--steps", type=int, required=True)
arguments = parser.parse_args()


def resident_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


if "OMP_NUM_THREADS" in os.environ:
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.manual_seed(0)
world_size = int(os.environ["WORLD_SIZE"])
module = MODELS[arguments.model]()
model = module
if world_size > 1:
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=True)
optimizer = torch.optim.Adam(module.parameters(), lr=1e-4)
inputs, labels = module.random_batch(arguments.batch, arguments.seq)

times = []
for step in range(arguments.steps + max(3, arguments.steps // 5)):
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    module.loss(model(*inputs), labels).backward()
    optimizer.step()
    times.append(time.perf_counter() - start)
times = times[-arguments.steps:]
memory = torch.tensor([resident_mib()])
if world_size > 1:
    dist.all_reduce(memory, dist.ReduceOp.MAX)
if int(os.environ["RANK"]) == 0:
    parameters = sum(parameter.numel() for parameter in module.parameters())
    print(json.dumps({"median_ms": 1000 * statistics.median(times), "rss_mib": memory.item(), "parameters": parameters}))
if world_size > 1:
    dist.destroy_process_group()
