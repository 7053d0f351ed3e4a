#!/usr/bin/env python3
"""Prints, as JSON, what rules of Hugging Face's Trainer and of scikit-learn give: rules.json is its output.

    PYTHON tests/train/huggingface/rules.py > tests/train/huggingface/rules.json

PYTHON has torch, transformers, accelerate, scikit-learn and scipy; docs/design/test-tools.md says which.
"""
import json
import logging
import math
import pathlib
import sys
import tempfile

import scipy.stats
import sklearn.metrics
import torch
import transformers
from transformers import (BertForMaskedLM, BertForSequenceClassification, EarlyStoppingCallback,
                          GPT2ForSequenceClassification, GPT2LMHeadModel, Trainer, TrainingArguments, get_scheduler)
from transformers.trainer_pt_utils import DistributedLengthGroupedSampler, LengthGroupedSampler

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "models" / "fixtures"


def schedule(name, warmup, total, **kwargs):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.01)
    scheduler = get_scheduler(name, optimizer, warmup, total, kwargs or None)
    rates = []
    for _ in range(total + 2):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return {"name": name, "warmup": warmup, "total": total, "kwargs": kwargs, "rates": rates}


def schedules():
    for warmup in (0, 4):
        yield schedule("linear", warmup, 12)
        yield schedule("cosine", warmup, 12)
        yield schedule("cosine", warmup, 12, num_cycles=1.5)
        yield schedule("cosine_with_restarts", warmup, 12)
        yield schedule("cosine_with_restarts", warmup, 12, num_cycles=3)
        yield schedule("polynomial", warmup, 12)
        yield schedule("polynomial", warmup, 12, lr_end=1e-3, power=2.0)
        yield schedule("constant", warmup, 12)
        yield schedule("constant_with_warmup", warmup, 12)
        yield schedule("inverse_sqrt", warmup, 12)
        yield schedule("inverse_sqrt", warmup, 12, timescale=5)
        yield schedule("cosine_with_min_lr", warmup, 12, min_lr=1e-3)
        yield schedule("cosine_with_min_lr", warmup, 12, min_lr_rate=0.25, num_cycles=1.0)
        yield schedule("cosine_warmup_with_min_lr", warmup, 12, min_lr_rate=0.25)
        yield schedule("cosine_warmup_with_min_lr", warmup, 12, min_lr=1e-3, warmup_lr_rate=0.1)
        for shape in ("linear", "cosine", "1-sqrt"):
            yield schedule("warmup_stable_decay", warmup, 12, num_decay_steps=5, warmup_type=shape, decay_type=shape,
                           min_lr_ratio=0.1)
    yield schedule("warmup_stable_decay", 3, 12, num_decay_steps=4, num_stable_steps=2)


class Named(torch.nn.Module):
    """Normalisation under names that say it and names that do not."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.LayerNorm(3)
        self.input_norm = torch.nn.BatchNorm1d(3)
        self.bn1 = torch.nn.BatchNorm1d(3)
        self.head = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3))

    def forward(self, x):
        return x


def arguments(folder, **more):
    return TrainingArguments(output_dir=folder, use_cpu=True, report_to="none", disable_tqdm=True, save_strategy="no",
                             logging_strategy="no", **more)


def decays(folder):
    kinds = {"bert-classifier": BertForSequenceClassification, "bert-mlm": BertForMaskedLM, "gpt2-lm": GPT2LMHeadModel,
             "gpt2-classifier": GPT2ForSequenceClassification}
    models = {name: kind.from_pretrained(FIXTURES / name) for name, kind in kinds.items()}
    for name, model in {**models, "named": Named()}.items():
        decayed = Trainer(model=model, args=arguments(folder)).get_decay_parameter_names(model)
        listed = [each for each, _ in model.named_parameters()]
        yield {"model": name, "decayed": sorted(set(decayed) & set(listed)),
               "others": sorted(set(listed) - set(decayed))}


def lengths_of(samples):
    return [i * i % 23 for i in range(samples)]


def groups():
    for samples, batch in ((1, 1), (16, 2), (40, 3), (333, 8)):
        generator = torch.Generator()
        generator.manual_seed(7)
        order = list(LengthGroupedSampler(batch, lengths=lengths_of(samples), generator=generator))
        yield {"samples": samples, "batch": batch, "replicas": 1, "rank": 0, "epoch": 0, "order": order}
    for samples, batch, replicas in ((16, 2, 2), (40, 3, 3)):
        for epoch in (0, 4):
            for rank in range(replicas):
                sampler = DistributedLengthGroupedSampler(batch, num_replicas=replicas, rank=rank, seed=7,
                                                          lengths=lengths_of(samples))
                sampler.set_epoch(epoch)
                yield {"samples": samples, "batch": batch, "replicas": replicas, "rank": rank, "epoch": epoch,
                       "order": list(sampler)}


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(1, 1)

    def forward(self, x, labels):
        scores = self.line(x)
        return {"loss": (scores - labels).square().mean(), "logits": scores}


def stop(folder, values, patience, threshold, greater):
    rows = [{"x": torch.ones(1), "labels": torch.ones(1)}] * len(values)
    left = iter(values)
    args = arguments(folder, per_device_train_batch_size=1, num_train_epochs=1, eval_strategy="steps", eval_steps=1,
                     metric_for_best_model="score", greater_is_better=greater)
    trainer = Trainer(model=Line(), args=args, train_dataset=rows, eval_dataset=rows[:1],
                      compute_metrics=lambda _: {"score": next(left)},
                      callbacks=[EarlyStoppingCallback(patience, threshold)])
    steps = trainer.train().global_step
    return {"values": [str(each) for each in values], "patience": patience, "threshold": threshold, "greater": greater,
            "steps": steps}


def stops(folder):
    slow = [0.5, 0.52, 0.54, 0.56, 0.58, 0.6, 0.62]
    bumpy = [0.5, 0.4, 0.6, 0.55, 0.58, 0.61, 0.3, 0.2, 0.1]
    nan = [math.nan, 0.5, math.nan, 0.6, math.nan, math.nan, 0.7]
    for values in (slow, bumpy, nan, [math.nan] * 4):
        for patience, threshold in ((1, 0.0), (2, 0.0), (2, 0.03), (3, 0.05), (1, 0.02)):
            for greater in (True, False):
                yield stop(folder, values, patience, threshold, greater)


def drawn(count, below, seed):
    values = []
    for _ in range(count):
        seed = (seed * 1103515245 + 12345) % 2**31
        values.append((seed >> 8) % below)
    return values


def classifications():
    for classes, seed in ((2, 3), (3, 4), (7, 5)):
        labels = drawn(60, classes, seed)
        guesses = drawn(60, classes, seed + 50)
        predictions = [label if i % 3 else guess for i, (label, guess) in enumerate(zip(labels, guesses))]
        result = {"classes": classes, "labels": labels, "predictions": predictions,
                  "accuracy": sklearn.metrics.accuracy_score(labels, predictions),
                  "matthews_correlation": sklearn.metrics.matthews_corrcoef(labels, predictions)}
        for average in ("binary", "macro", "weighted"):
            if average == "binary" and classes != 2:
                continue
            for metric in ("precision", "recall", "f1"):
                compute = getattr(sklearn.metrics, metric + "_score")
                result[f"{metric}_{average}"] = compute(labels, predictions, average=average, zero_division=0)
        yield result


def correlation():
    x = [value / 17 for value in drawn(40, 100, 6)]
    y = [a + value / 9 for a, value in zip(x, drawn(40, 50, 9))]
    return {"x": x, "y": y, "pearson": float(scipy.stats.pearsonr(x, y).statistic),
            "mse": sklearn.metrics.mean_squared_error(x, y)}


def multi_labels():
    for labels, seed in ((1, 11), (3, 12), (6, 13)):
        want = [value < 3 for value in drawn(40 * labels, 10, seed)]
        logits = [(value - 50) / 16 + 1.5 * flag for value, flag in zip(drawn(40 * labels, 99, seed + 50), want)]
        want, logits = (torch.tensor(values).view(40, labels) for values in ([float(flag) for flag in want], logits))
        guesses = (logits > 0).int().numpy()
        f1 = {f"f1_{average}": sklearn.metrics.f1_score(want.int().numpy(), guesses, average=average, zero_division=0)
              for average in ("micro", "macro")} if labels > 1 else {}
        yield {"labels": want.tolist(), "logits": logits.tolist(),
               "accuracy": sklearn.metrics.accuracy_score(want.int().numpy(), guesses), **f1}


def main():
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    out, sys.stdout = sys.stdout, sys.stderr
    with tempfile.TemporaryDirectory() as folder:
        facts = {"schedules": list(schedules()), "decays": list(decays(folder)), "groups": list(groups()),
                 "stops": list(stops(folder)), "classifications": list(classifications()),
                 "multi_labels": list(multi_labels()), "correlation": [correlation()]}
    versions = {"transformers": transformers.__version__, "sklearn": sklearn.__version__}
    lines = [f'"versions": {json.dumps(versions)}']
    lines += [json.dumps(name) + ": [\n" + ",\n".join(map(json.dumps, rows)) + "]" for name, rows in facts.items()]
    out.write("{\n" + ",\n".join(lines) + "\n}\n")


main()
