"""The peer of `lockstep bench step`: the same model, batch and update in Python's DistributedDataParallel over Gloo.

Started by a launcher (RANK and the rest in the environment). Rank 0 prints one JSON object. Attention is PyTorch's fused
one and so is Adam, where the version has them.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from pytorch_models import MODELS, huggingface_model
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True, choices=MODELS)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--seq", type=int, default=64)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--layers", choices=["own", "huggingface"], default="own")
parser.add_argument("--adam", choices=["fused", "default"], default="fused")
parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
parser.add_argument("--compile", action="store_true")
arguments = parser.parse_args()


def resident_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def has_fused_adam():
    """On the CPU since 2.4."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 4)


def details(fused):
    parts = [f"PyTorch {torch.__version__.split('+')[0]}"]
    if arguments.layers == "huggingface":
        import transformers
        parts.append(f"transformers {transformers.__version__}")
    parts.append(f"{torch.get_num_threads()} thread(s)")
    parts.append("fused Adam" if fused else "Adam")
    is_bf16 = arguments.dtype == "bf16"
    parts.append("autocast in bf16" if is_bf16 else f"fp32 products: {torch.get_float32_matmul_precision()}")
    return ", ".join(parts)


if "OMP_NUM_THREADS" in os.environ:
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.manual_seed(0)
world_size = int(os.environ["WORLD_SIZE"])
module = huggingface_model(arguments.model) if arguments.layers == "huggingface" else MODELS[arguments.model]()
model = module
if world_size > 1:
    os.environ.setdefault("USE_LIBUV", "0")  # Debian 13's PyTorch asks for it, and is built without it
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=True)
if arguments.compile:
    model = torch.compile(model)
fused = arguments.adam == "fused" and has_fused_adam()
optimizer = torch.optim.Adam(module.parameters(), lr=1e-4, **({"fused": True} if fused else {}))
inputs, labels = module.random_batch(arguments.batch, arguments.seq)

times = []
for step in range(arguments.steps + max(3, arguments.steps // 5)):
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=arguments.dtype == "bf16"):
        output = model(*inputs)
    module.loss(output.float(), labels).backward()
    optimizer.step()
    times.append(time.perf_counter() - start)
times = times[-arguments.steps:]
memory = torch.tensor([resident_mib()])
if world_size > 1:
    dist.all_reduce(memory, dist.ReduceOp.MAX)
if int(os.environ["RANK"]) == 0:
    parameters = sum(parameter.numel() for parameter in module.parameters())
    print(json.dumps({"median_ms": 1000 * statistics.median(times), "rss_mib": memory.item(), "parameters": parameters,
                      "details": details(fused)}))
if world_size > 1:
    dist.destroy_process_group()
# PyTorch 2.15 now and then ends with "terminate called without an active exception" while the interpreter shuts down.
# What was measured is printed by then.
sys.stdout.flush()
os._exit(0)
