"""The peer of `lockstep bench inference`: the same layers in one Python process. Prints the milliseconds per batch."""
import argparse
import time

import torch
from pytorch_models import MODELS

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True, choices=MODELS)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--seq", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
arguments = parser.parse_args()

torch.manual_seed(0)
module = MODELS[arguments.model]().eval()
inputs, _ = module.random_batch(arguments.batch, arguments.seq)
with torch.inference_mode():
    module(*inputs)
    start = time.perf_counter()
    for _ in range(arguments.steps):
        module(*inputs)
print(1000 * (time.perf_counter() - start) / arguments.steps)
