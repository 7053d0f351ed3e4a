"""The peer of `lockstep bench step`: the same model, batch and update in Python's DistributedDataParallel over Gloo, or
sharded by its fully_shard.

Started by a launcher (RANK and the rest in the environment). Rank 0 prints one JSON object. Attention is PyTorch's fused
one and so is Adam, where the version has them.
"""
import argparse
import json
import os
import statistics
import sys
import threading
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
parser.add_argument("--wrapper", choices=["ddp", "fsdp2"], default="ddp")
parser.add_argument("--compile", action="store_true")
parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
parser.add_argument("--memory", action="store_true", help="also watch what the ranks hold, which takes time")
arguments = parser.parse_args()


def resident_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def bytes_sent_by_host():
    """With headers, by any interface but lo."""
    with open("/proc/self/net/dev") as devices:
        lines = [line.split(":") for line in devices if ":" in line]
    return sum(int(fields.split()[8]) for name, fields in lines if name.strip() != "lo")


def held_mib():
    """Memory of this process, and its share of what processes share; without files."""
    with open("/proc/self/smaps_rollup") as rollup:
        return sum(int(line.split()[1]) / 1024 for line in rollup if line.startswith(("Pss_Anon:", "Pss_Shmem:")))


class HeldMemory(threading.Thread):
    """The most that this process holds once it is started, beyond what it held when the object was made."""

    def __init__(self):
        super().__init__(daemon=True)
        self.before = self.most = held_mib()
        self.done = threading.Event()

    def run(self):
        while not self.done.wait(0.02):
            self.most = max(self.most, held_mib())

    def stop(self):
        self.done.set()
        if self.is_alive():
            self.join()
        return self.most - self.before


def shard(module, world_size):
    """A unit for each numbered submodule, as ours has it, and one for the rest."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    mesh = init_device_mesh("cpu", (world_size,))
    # Weights travel in bf16, and gradients in fp32, as ours do.
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    how = {"mp_policy": policy} if arguments.dtype == "bf16" else {}
    for name, layer in reversed(list(module.named_modules())):
        if name.rsplit(".", 1)[-1].isdigit() and any(True for _ in layer.parameters()):
            fully_shard(layer, mesh=mesh, **how)
    fully_shard(module, mesh=mesh, **how)
    if any(parameter.is_meta for parameter in module.parameters()):
        module.to_empty(device="cpu")
        for part in module.modules():
            if hasattr(part, "reset_parameters"):
                part.reset_parameters()
    return module


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
    if arguments.wrapper == "fsdp2":
        parts.append("fully_shard")
    is_bf16 = arguments.dtype == "bf16"
    parts.append("autocast in bf16" if is_bf16 else f"fp32 products: {torch.get_float32_matmul_precision()}")
    return ", ".join(parts)


if "OMP_NUM_THREADS" in os.environ:
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.manual_seed(0)
world_size = int(os.environ["WORLD_SIZE"])
os.environ.setdefault("USE_LIBUV", "0")  # Debian 13's PyTorch asks for it, and is built without it
is_distributed = world_size > 1 or arguments.wrapper == "fsdp2"
device = torch.device(arguments.device)
if arguments.device == "cuda":
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
if is_distributed:
    dist.init_process_group("gloo" if arguments.device == "cpu" else "nccl")
held = HeldMemory()
if arguments.layers == "huggingface":
    module = huggingface_model(arguments.model)
else:  # fully_shard never needs a whole model in memory, as ours does not
    with torch.device("meta" if arguments.wrapper == "fsdp2" else "cpu"):
        module = MODELS[arguments.model]()
if arguments.device == "cuda":
    module.to(device)
model = module
if arguments.wrapper == "fsdp2":
    model = shard(module, world_size)
elif world_size > 1:
    model = nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=True)
if arguments.compile:
    model = torch.compile(model)
fused = arguments.adam == "fused" and has_fused_adam()
optimizer = torch.optim.Adam(module.parameters(), lr=1e-4, **({"fused": True} if fused else {}))
inputs, labels = module.random_batch(arguments.batch, arguments.seq)
inputs, labels = [each.to(device) for each in inputs], labels.to(device)

times = []
if arguments.memory:
    held.start()
sent_before = bytes_sent_by_host()
for step in range(arguments.steps + max(3, arguments.steps // 5)):
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(arguments.device, torch.bfloat16, enabled=arguments.dtype == "bf16"):
        output = model(*inputs)
    module.loss(output.float(), labels).backward()
    optimizer.step()
    if arguments.device == "cuda":
        torch.cuda.synchronize()
    times.append(time.perf_counter() - start)
sent = (bytes_sent_by_host() - sent_before) / len(times)
times = times[-arguments.steps:]
memory = torch.tensor([resident_mib()], device=device)
held_by_all = torch.tensor([held.stop()], device=device)
if is_distributed:
    dist.all_reduce(memory, dist.ReduceOp.MAX)
    dist.all_reduce(held_by_all)
if int(os.environ["RANK"]) == 0:
    parameters = sum(parameter.numel() for parameter in module.parameters())
    print(json.dumps({"median_ms": 1000 * statistics.median(times), "rss_mib": memory.item(),
                      "held_mib": held_by_all.item(), "sent_bytes": sent, "parameters": parameters,
                      "details": details(fused)}))
if is_distributed:
    dist.destroy_process_group()
# PyTorch 2.15 now and then ends with "terminate called without an active exception" while the interpreter shuts down.
# What was measured is printed by then.
sys.stdout.flush()
os._exit(0)
