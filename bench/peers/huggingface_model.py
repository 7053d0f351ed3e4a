"""The peer of `lockstep bench model`: forward and backward of Hugging Face's model, driven from Python.

Reads the folder that Lockstep wrote, and prints one JSON object: times of each step, the loss without dropout.
"""
import argparse
import json
import os
import time

import torch
import transformers


def make_batch(model, size, length):
    """The batch of `make_model_batch` in bench/measure/model_batch.cpp."""
    is_classifier = model.config.model_type == "bert"
    ids = (torch.arange(size * length).view(size, length) * 7919 + 1000) % model.config.vocab_size
    lengths = length - torch.arange(size) * length // (4 * size)
    mask = (torch.arange(length).unsqueeze(0) < lengths.unsqueeze(1)).long()
    labels = torch.arange(size) % model.config.num_labels if is_classifier else ids.masked_fill(mask == 0, -100)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seq", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    arguments = parser.parse_args()
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=arguments.dtype == "bf16")
    transformers.logging.set_verbosity_error()
    if "OMP_NUM_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    config = transformers.AutoConfig.from_pretrained(arguments.model)
    classes = {"bert": transformers.BertForSequenceClassification, "gpt2": transformers.GPT2LMHeadModel}
    model = classes[config.model_type].from_pretrained(arguments.model)
    batch = make_batch(model, arguments.batch, arguments.seq)
    model.eval()
    with torch.no_grad(), autocast:
        loss = model(**batch).loss.item()
    model.train()
    forward_ms, backward_ms = [], []
    for _ in range(arguments.steps + max(2, arguments.steps // 5)):
        model.zero_grad(set_to_none=True)
        start = time.perf_counter()
        with autocast:
            step_loss = model(**batch).loss
        middle = time.perf_counter()
        step_loss.backward()
        forward_ms.append(1000 * (middle - start))
        backward_ms.append(1000 * (time.perf_counter() - middle))
    with open("/proc/self/status", encoding="ascii") as status:
        peak_mib = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
    print(json.dumps({
        "version": f"transformers {transformers.__version__}, torch {torch.__version__}",
        "loss": loss,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "threads": torch.get_num_threads(),
        "forward_ms": forward_ms[-arguments.steps:],
        "backward_ms": backward_ms[-arguments.steps:],
        "peak_mib": peak_mib,
    }))


main()
