"""As step_counts.cpp, with PyTorch's own classes: step_counts_torch.py alone, dataparallel, ddp or trainer.

`trainer` is Hugging Face's Trainer, and needs transformers and accelerate.
"""
import ctypes
import os
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

WORDS, WIDTH, HEADS, INNER, LAYERS, CLASSES = 1000, 128, 4, 512, 4, 4
ROWS, LENGTH = 8, 16
STEPS_BEFORE, STEPS = 3, 4
COUNTED = ["host_waits", "launches", "copies", "events", "stream_waits", "allocations", "nccl_calls", "nccl_launches"]

device_counter = ctypes.CDLL(None).fake_gpu_counter
device_counter.restype = ctypes.c_long


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x):
        def heads(rows):
            return rows.view(x.size(0), x.size(1), HEADS, WIDTH // HEADS).transpose(1, 2)

        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        mixed = torch.softmax(q @ k.transpose(2, 3) / 8, -1) @ v
        h = self.first(x + self.out(mixed.transpose(1, 2).reshape(x.shape)))
        return self.second(h + self.down(F.gelu(self.up(h))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, ids):
        h = self.words(ids)
        for layer in self.layers:
            h = layer(h)
        return self.head(h[:, 0])


class Count:
    def begin(self):
        self.before = [device_counter(name.encode()) for name in COUNTED]

    def end(self, steps):
        after = [device_counter(name.encode()) for name in COUNTED]
        words = [f"{name}={(b - a + steps // 2) // steps}" for name, a, b in zip(COUNTED, self.before, after)]
        words += [f"{name}={device_counter(name.encode())}" for name in ("contexts", "peak_bytes")]
        print("counts", *words, flush=True)


def count_loop(net, model, device, rows, prints):
    optimizer = torch.optim.AdamW(net.parameters())
    count = Count()
    for step in range(STEPS_BEFORE + STEPS):
        if step == STEPS_BEFORE:
            count.begin()
        x, y = torch.randint(0, WORDS, (rows, LENGTH)).to(device), torch.randint(0, CLASSES, (rows,)).to(device)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    if prints:
        count.end(STEPS)


def count_ddp():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl")
    net = Encoder().to(device)
    model = nn.parallel.DistributedDataParallel(net, device_ids=[device], bucket_cap_mb=1)
    count_loop(net, model, device, ROWS, torch.distributed.get_rank() == 0)
    torch.distributed.destroy_process_group()


def count_trainer():
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class WithLoss(Encoder):
        def forward(self, input_ids, labels):
            logits = super().forward(input_ids)
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    class CountCallback(TrainerCallback):
        count = Count()

        def on_step_begin(self, args, state, control, **_):
            if state.global_step == STEPS_BEFORE:
                self.count.begin()

        def on_step_end(self, args, state, control, **_):
            if state.global_step == STEPS_BEFORE + STEPS and state.is_world_process_zero:
                self.count.end(STEPS)

    samples = [{"input_ids": torch.randint(0, WORDS, (LENGTH,)), "labels": torch.randint(0, CLASSES, ())}
               for _ in range(2 * ROWS * (STEPS_BEFORE + STEPS + 1))]
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(folder, per_device_train_batch_size=ROWS, num_train_epochs=1, save_strategy="no",
                                 report_to="none", disable_tqdm=True, ddp_bucket_cap_mb=1)
        Trainer(WithLoss(), args, train_dataset=samples, callbacks=[CountCallback()]).train()


def main():
    torch.manual_seed(1)
    way = sys.argv[1]
    if way == "ddp":
        count_ddp()
    elif way == "trainer":
        count_trainer()
    else:
        device = torch.device("cuda", 0)
        net = Encoder().to(device)
        is_parallel = way == "dataparallel"
        model = nn.DataParallel(net) if is_parallel else net
        count_loop(net, model, device, (2 if is_parallel else 1) * ROWS, True)


main()
