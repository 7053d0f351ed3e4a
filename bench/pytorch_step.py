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
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--seq", type=int, default=0)
parser.add_argument("--steps", type=int, required=True)
arguments = parser.parse_args()


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.layer2 = nn.Sequential(nn.Conv2d(16, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.fc = nn.Linear(7 * 7 * 32, 10)

    def forward(self, images):
        return self.fc(self.layer2(self.layer1(images)).flatten(1))


def mlp():
    sizes = [122, 128, 64, 32, 16, 2]
    layers = []
    for width, following in zip(sizes, sizes[1:]):
        layers += [nn.Linear(width, following), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def resident_mb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


if "OMP_NUM_THREADS" in os.environ:
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.manual_seed(0)
world_size = int(os.environ["WORLD_SIZE"])
if arguments.model == "convnet":
    module, shape, classes = ConvNet(), (1, 28, 28), 10
else:
    module, shape, classes = mlp(), (122,), 2
model = module
if world_size > 1:
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=True)
optimizer = torch.optim.Adam(module.parameters(), lr=1e-4)
criterion = nn.CrossEntropyLoss()
inputs = torch.randn(arguments.batch, *shape)
labels = torch.randint(classes, (arguments.batch,))

times = []
for step in range(arguments.steps + max(3, arguments.steps // 5)):
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    criterion(model(inputs), labels).backward()
    optimizer.step()
    times.append(time.perf_counter() - start)
times = times[-arguments.steps:]
memory = torch.tensor([resident_mb()])
if world_size > 1:
    dist.all_reduce(memory, dist.ReduceOp.MAX)
if int(os.environ["RANK"]) == 0:
    print(json.dumps({"median_ms": 1000 * statistics.median(times), "rss_mb": memory.item()}))
if world_size > 1:
    dist.destroy_process_group()
