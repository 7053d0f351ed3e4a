"""The peer of `lockstep bench restart`: trains until it is ended, saves, and resumes from the saved state.

Each rank prints its process number; rank 0 prints each step.
"""
import os
import sys

import torch
import torch.distributed as dist
from pytorch_models import MODELS
from torch import nn

path, steps_per_save = sys.argv[1] + "/checkpoint.pt", int(sys.argv[2])
rank = int(os.environ["RANK"])
print(f"rank {rank} pid {os.getpid()}", flush=True)
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
torch.manual_seed(0)
os.environ.setdefault("USE_LIBUV", "0")  # Debian 13's PyTorch asks for it, and is built without it
dist.init_process_group("gloo")
module = MODELS["convnet"]()
model = nn.parallel.DistributedDataParallel(module)
optimizer = torch.optim.Adam(module.parameters(), lr=1e-4)
step = 0
if os.path.exists(path):
    saved = torch.load(path)
    module.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step = saved["step"]
inputs, labels = module.random_batch(16, 0)
while True:
    optimizer.zero_grad(set_to_none=True)
    module.loss(model(*inputs), labels).backward()
    optimizer.step()
    step += 1
    if rank == 0:
        print(f"step {step}", flush=True)
        if step % steps_per_save == 0:
            torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path + ".new")
            os.replace(path + ".new", path)
