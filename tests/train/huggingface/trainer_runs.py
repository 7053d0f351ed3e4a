#!/usr/bin/env python3
"""Trains small models by Hugging Face's Trainer and prints what it did, as JSON: trainer_runs.json is its output.

    PYTHON tests/train/huggingface/trainer_runs.py > tests/train/huggingface/trainer_runs.json

PYTHON has torch, transformers and accelerate; docs/design/test-tools.md says which. The models are those of tests/models/fixtures
without dropout. Samples come in the order of torch's DistributedSampler: it does not depend on the number of ranks.
"""
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from transformers import (BertForSequenceClassification, EarlyStoppingCallback, GPT2LMHeadModel, Trainer,
                          TrainerCallback, TrainingArguments)

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "models" / "fixtures"
EVENTS = ("init_end", "train_begin", "train_end", "epoch_begin", "epoch_end", "step_begin", "substep_end",
          "pre_optimizer_step", "optimizer_step", "step_end", "evaluate", "predict", "save", "log", "prediction_step")
DEFAULTS = {"optim": "adamw_torch", "learning_rate": 0.01, "per_device_train_batch_size": 4, "num_train_epochs": 2,
            "per_device_eval_batch_size": 4, "logging_steps": 1, "save_strategy": "no", "weight_decay": 0.1}


def case(name, model="bert-classifier", ranks=1, samples=24, show=(), patience=0, **args):
    """`show`: of "events", "state"; `samples`: of the training set."""
    return {"name": name, "model": model, "ranks": ranks, "samples": samples, "show": list(show),
            "patience": patience, "args": {**DEFAULTS, **args}}


CASES = [
    case("plain", show=["state"], samples=22, warmup_steps=3, eval_strategy="epoch"),
    # With a rate of 0.01, weights that differ by one rounding end with norms that differ by 0.4 percent.
    case("clipped", max_grad_norm=0.5, lr_scheduler_type="cosine", learning_rate=0.003),
    case("sgd", optim="sgd", learning_rate=0.1, lr_scheduler_type="constant", max_grad_norm=0.0),
    case("smoothed_labels", label_smoothing_factor=0.2, eval_strategy="epoch"),
    case("smoothed_tokens", model="gpt2-lm", label_smoothing_factor=0.2, num_train_epochs=1),
    case("tokens", model="gpt2-lm", num_train_epochs=1),
    case("accumulated", per_device_train_batch_size=2, gradient_accumulation_steps=5, logging_steps=2),
    case("accumulated_tokens", model="gpt2-lm", per_device_train_batch_size=2, gradient_accumulation_steps=5),
    case("plateau", lr_scheduler_type="reduce_lr_on_plateau", lr_scheduler_kwargs={"patience": 0, "factor": 0.5},
         eval_strategy="steps", eval_steps=2, learning_rate=0.05, num_train_epochs=3, metric_for_best_model="loss"),
    case("bf16", bf16=True, learning_rate=0.0005),
    case("events", show=["events"], samples=10, per_device_train_batch_size=2, gradient_accumulation_steps=2,
         num_train_epochs=1, logging_steps=1, eval_strategy="epoch", save_strategy="epoch"),
    case("events_in_steps", show=["events"], samples=16, num_train_epochs=2, logging_steps=3, eval_strategy="steps",
         eval_steps=2, save_strategy="steps", save_steps=4, eval_on_start=True, logging_first_step=True),
    case("cadence_of_parts", show=["events"], samples=40, logging_steps=0.25, eval_strategy="steps", eval_steps=0.1,
         save_strategy="steps", save_steps=0.3, warmup_steps=0.25),
    case("cadence_of_epochs", show=["events"], samples=16, num_train_epochs=2.5, logging_strategy="epoch",
         eval_strategy="epoch", eval_delay=2, save_strategy="epoch"),
    case("max_steps_within_an_epoch", show=["events"], samples=24, max_steps=8, logging_steps=5),
    case("best_model", show=["events", "state"], samples=24, learning_rate=0.003, num_train_epochs=4,
         lr_scheduler_type="constant", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True,
         save_total_limit=1, logging_steps=6),
    case("early_stop", show=["events", "state"], samples=24, learning_rate=0.003, num_train_epochs=20, patience=2,
         lr_scheduler_type="constant", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True,
         metric_for_best_model="loss", logging_steps=6),
    case("two_ranks", ranks=2, per_device_train_batch_size=2, eval_strategy="epoch"),
    case("two_ranks_tokens", model="gpt2-lm", ranks=2, per_device_train_batch_size=2,
         gradient_accumulation_steps=2),
]


def texts(samples, model, seed):
    """Ids of 3 to 10 tokens; a class for a text, or for each token its id, some of which do not count."""
    state = seed
    rows = []

    def draw(below):
        nonlocal state
        state = (state * 1103515245 + 12345) % 2**31
        return (state >> 8) % below

    for _ in range(samples):
        ids = [1 + draw(38) for _ in range(3 + draw(8))]
        labels = ids[0] % 3
        if model == "gpt2-lm":
            # Nothing predicts a text's first token; Trainer counts it among an update's items, if it has a label.
            labels = [-100] + [-100 if draw(4) == 0 else token for token in ids[1:]]
        rows.append({"input_ids": ids, "labels": labels})
    return rows


def collate(rows):
    longest = max(len(row["input_ids"]) for row in rows)

    def padded(values, fill):
        return [list(each) + [fill] * (longest - len(each)) for each in values]

    batch = {"input_ids": padded([row["input_ids"] for row in rows], 0),
             "attention_mask": padded([[1] * len(row["input_ids"]) for row in rows], 0),
             "labels": [row["labels"] for row in rows]}
    if isinstance(batch["labels"][0], list):
        batch["labels"] = padded(batch["labels"], -100)
    return {name: torch.tensor(values) for name, values in batch.items()}


class Order(torch.utils.data.Sampler):
    """That of DistributedSampler on one rank; each pass is the next epoch."""

    def __init__(self, size, seed=42):
        self.size, self.seed = size, seed

    def __len__(self):
        return self.size

    def __iter__(self):
        generator = torch.Generator()
        generator.manual_seed(self.seed)
        self.seed += 1
        return iter(torch.randperm(self.size, generator=generator).tolist())


class InOrder(Trainer):
    def _get_train_sampler(self, *unused):
        return Order(len(self.train_dataset))


class Classifier(BertForSequenceClassification):
    """Takes no more arguments than it needs: of a model that takes any, Trainer believes that it divides its loss by
    the number of items of an update, which this one does not, and losses come out too large by the number of ranks and
    of accumulated batches."""

    def forward(self, input_ids=None, attention_mask=None, labels=None):
        return super().forward(input_ids=input_ids, attention_mask=attention_mask, labels=labels)


class Recorder(TrainerCallback):
    def __init__(self):
        self.events = []


for event in EVENTS:
    def note(self, args, state, control, event=event, **kwargs):
        self.events.append(f"{event} {state.global_step}")

    setattr(Recorder, "on_" + event, note)


def model_of(name):
    kind = GPT2LMHeadModel if name == "gpt2-lm" else Classifier
    config = kind.config_class.from_pretrained(FIXTURES / name)
    for rate in ("hidden_dropout_prob", "attention_probs_dropout_prob", "resid_pdrop", "embd_pdrop", "attn_pdrop"):
        if hasattr(config, rate):
            setattr(config, rate, 0.0)
    return kind.from_pretrained(FIXTURES / name, config=config, attn_implementation="eager")


def without_times(entries):
    return [{name: value for name, value in entry.items() if "runtime" not in name and "per_second" not in name}
            for entry in entries]


def run(one):
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder()
        callbacks = [recorder]
        if one["patience"]:
            callbacks.append(EarlyStoppingCallback(one["patience"]))
        args = TrainingArguments(output_dir=folder, use_cpu=True, report_to="none", disable_tqdm=True, **one["args"])
        trainer = InOrder(model=model_of(one["model"]), args=args, data_collator=collate, callbacks=callbacks,
                          train_dataset=texts(one["samples"], one["model"], 7),
                          eval_dataset=texts(16, one["model"], 8))
        output = trainer.train()
        result = {**one, "global_step": output.global_step, "log_history": without_times(trainer.state.log_history),
                  "train_keys": list(output.metrics)}
        if "events" in one["show"]:
            result["events"] = recorder.events
        if "state" in one["show"]:
            trainer.save_state()
            result["state"] = json.loads((pathlib.Path(folder) / "trainer_state.json").read_text())
            del result["state"]["log_history"]
            best = result["state"]["best_model_checkpoint"]
            result["state"]["best_model_checkpoint"] = best and os.path.basename(best)
            result["checkpoints"] = sorted(each.name for each in pathlib.Path(folder).glob("checkpoint-*"))
        return result


def on_two_ranks(file):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", "0",
               "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", __file__, file]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return json.loads(pathlib.Path(file).read_text())


def main():
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    if len(sys.argv) > 1:  # a rank
        results = [run(one) for one in CASES if one["ranks"] == 2]
        if os.environ["RANK"] == "0":
            pathlib.Path(sys.argv[1]).write_text(json.dumps(results))
        return
    out, sys.stdout = sys.stdout, sys.stderr  # Trainer prints its logs
    results = [run(one) for one in CASES if one["ranks"] == 1]
    with tempfile.TemporaryDirectory() as folder:
        results += on_two_ranks(folder + "/results.json")
    sizes = sorted({(one["model"], one["samples"], 7) for one in CASES} | {(one["model"], 16, 8) for one in CASES})
    data = [{"model": model, "samples": samples, "seed": seed, "rows": texts(samples, model, seed)}
            for model, samples, seed in sizes]
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    lines = [f'"versions": {json.dumps(versions)}']
    lines += [json.dumps(name) + ": [\n" + ",\n".join(map(json.dumps, rows)) + "]"
              for name, rows in (("data", data), ("runs", results))]
    out.write("{\n" + ",\n".join(lines) + "\n}\n")


main()
