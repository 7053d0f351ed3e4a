"""A rank of the peers of bench/survival_peers.py: trains, and reports each step with its time.

    pytorch_survival.py FOLDER ddp       under torchrun: saves each step, and resumes from what was saved
    pytorch_survival.py FOLDER torchft   one replica of TorchFT's; REPLICA and TORCHFT_LIGHTHOUSE are set

Each rank writes its process number to FOLDER/pid.RANK; a replica of TorchFT's once it trains with others.
Lines of FOLDER/steps: seconds since 1970, steps done.
"""
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist
from pytorch_models import MODELS
from torch import nn

folder, kind = sys.argv[1:]
path = folder + "/checkpoint.pt"
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
torch.manual_seed(0)
module = MODELS["bert-tiny"]()
inputs, labels = module.random_batch(4, 32)


def claim(rank):
    with open(f"{folder}/pid.{rank}.new", "w", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    os.replace(f"{folder}/pid.{rank}.new", f"{folder}/pid.{rank}")


def report(step):
    with open(folder + "/steps", "a", encoding="utf-8") as file:
        file.write(f"{time.time():.4f} {step}\n")


def train_under_torchrun():
    rank = int(os.environ["RANK"])
    claim(rank)
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(module)
    optimizer = torch.optim.AdamW(module.parameters(), lr=5e-5)
    step = 0
    if os.path.exists(path):
        saved = torch.load(path)
        module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    while True:
        optimizer.zero_grad(set_to_none=True)
        module.loss(model(*inputs), labels).backward()
        optimizer.step()
        step += 1
        if rank == 0:
            torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path + ".new")
            os.replace(path + ".new", path)
            report(step)


def train_under_torchft():
    from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

    class SurvivingDataParallel(DistributedDataParallel):
        """The hook of TorchFT 0.2.0 asserts that a failed all-reduce has a future; with Gloo it has none, and the
        replica ends though its manager would skip the step. This hook returns the bucket, and the manager skips."""

        @staticmethod
        def _comm_hook(state, bucket):
            state.allreduce(bucket.buffer()).wait()  # reports a failure to the manager, and does not throw
            done = torch.futures.Future()
            done.set_result(bucket.buffer())
            return done

    replica = os.environ["REPLICA"]
    optimizer = torch.optim.AdamW(module.parameters(), lr=5e-5)

    def load_state(state):
        module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    seconds = datetime.timedelta(seconds=5)
    manager = Manager(pg=ProcessGroupGloo(timeout=seconds), load_state_dict=load_state, min_replica_size=1,
                      state_dict=lambda: {"model": module.state_dict(), "optimizer": optimizer.state_dict()},
                      timeout=seconds, rank=0, world_size=1, store_addr="localhost", store_port=store.port,
                      replica_id=f"replica_{replica}_")
    model, managed = SurvivingDataParallel(manager, module), Optimizer(manager, optimizer)
    joined = False
    while True:
        managed.zero_grad()
        module.loss(model(*inputs), labels).backward()
        managed.step()
        report(manager.current_step())
        if manager.num_participants() > 1 and not joined:
            claim(replica)
            joined = True


train_under_torchrun() if kind == "ddp" else train_under_torchft()
