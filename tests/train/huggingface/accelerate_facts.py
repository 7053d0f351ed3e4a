#!/usr/bin/env python3
"""Prints, as JSON, what Hugging Face's Accelerate gives on two ranks: accelerate_facts.json is its output.

    PYTHON tests/train/huggingface/accelerate_facts.py > tests/train/huggingface/accelerate_facts.json

PYTHON has torch, transformers and accelerate; docs/design/test-tools.md says which. Where a list has two entries, they are those
of ranks 0 and 1.
"""
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile

import accelerate
import torch
from torch.distributed.algorithms.join import Join
import transformers
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import DataLoaderConfiguration, GradientAccumulationPlugin, ProjectConfiguration, gather_object


def listed(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: listed(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [listed(each) for each in value]
    return value


def of_both(value):
    return gather_object([listed(value)])


def rows(count):
    return [torch.tensor(float(i)) for i in range(count)]


def loader_of(accelerator, samples, batch, **more):
    return accelerator.prepare(torch.utils.data.DataLoader(rows(samples), batch_size=batch, **more))


def collectives(accelerator):
    rank = accelerator.process_index
    ragged = torch.arange(float(2 + 2 * rank)).reshape(1 + rank, 2) + 10 * rank
    nested = {"a": torch.tensor([rank, rank + 5]), "b": [torch.tensor([[1.0 + rank]]), torch.tensor(rank * 1.5)]}
    fresh = {"a": torch.tensor([rank + 1.0]), "b": [torch.tensor([rank + 2.0])]}
    yield "gather", accelerator.gather(nested)
    yield "reduce_sum", accelerator.reduce(fresh, "sum")
    yield "reduce_mean", accelerator.reduce([torch.tensor([rank + 1.0])], "mean")
    for dim in (0, 1, -1, 2):
        for first in (False, True):
            value = ragged if dim == 0 else ragged.t().contiguous()
            padded = accelerator.pad_across_processes(value, dim=dim, pad_index=7, pad_first=first)
            yield f"pad_{dim}_{first}", padded
    yield "pad_nested", accelerator.pad_across_processes({"a": ragged, "b": [ragged, torch.tensor(3.0)]})


def splits(accelerator):
    for count in (0, 1, 2, 5):
        for padding in (False, True):
            if count == 0 and padding:
                continue
            words = list("abcdefgh"[:count])
            with accelerator.split_between_processes(words, apply_padding=padding) as part:
                yield f"list_{count}_{padding}", part
            if count > 1:
                with accelerator.split_between_processes({"w": words, "t": torch.arange(count)},
                                                         apply_padding=padding) as part:
                    yield f"dict_{count}_{padding}", part
                with accelerator.split_between_processes(torch.arange(2.0 * count).reshape(count, 2),
                                                         apply_padding=padding) as part:
                    yield f"tensor_{count}_{padding}", part


def loaders(accelerator):
    for samples in (1, 4, 7, 8, 10):
        loader = loader_of(accelerator, samples, 2)
        metrics = [accelerator.gather_for_metrics({"x": batch, "pair": [batch, batch + 100]}) for batch in loader]
        yield f"metrics_{samples}", {"batches": len(loader), "total_batch_size": loader.total_batch_size,
                                     "sizes": [len(each["x"]) for each in metrics],
                                     "samples": sorted(sum((listed(each["x"]) for each in metrics), [])),
                                     "second": sorted(sum((listed(each["pair"][1]) for each in metrics), []))}
    dropped = loader_of(accelerator, 10, 2, drop_last=True)
    yield "drop_last", {"batches": len(dropped), "samples": sum(len(batch) for batch in dropped)}
    skipped = skip_first_batches(loader_of(accelerator, 16, 2), 3)
    yield "skip_first_batches", {"batches": len(list(skipped))}


def windows(accelerator_of):
    """Where gradients are synchronised, over two epochs of five batches."""
    for steps in (2, 3):
        for with_loader in (True, False):
            accelerator = accelerator_of(
                gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=steps,
                                                                        sync_with_dataloader=with_loader))
            first, second = (accelerator.prepare(torch.nn.Linear(1, 1)) for _ in range(2))
            loader = loader_of(accelerator, 10, 1)
            synchronised = []
            for _ in range(2):
                for _ in loader:
                    with accelerator.accumulate(first, second):
                        synchronised.append([accelerator.sync_gradients, first.require_backward_grad_sync,
                                             second.require_backward_grad_sync])
            yield f"accumulate_{steps}_{with_loader}", synchronised


def triggers(accelerator):
    seen = [accelerator.check_trigger()]
    if accelerator.process_index == 1:
        accelerator.set_trigger()
    seen += [accelerator.check_trigger(), accelerator.check_trigger()]
    yield "triggers", seen


def join(accelerator_of):
    """Weights after ranks trained on three and on two batches. Accelerate's join_uneven_inputs is torch's Join on GPUs,
    and nothing on CPUs, where this would wait for ever."""
    accelerator = accelerator_of()
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1)
    with torch.no_grad():
        model.weight.fill_(0.5)
        model.bias.fill_(0.1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    rank = accelerator.process_index
    batches = [torch.tensor([[0.5 * i + 0.1 * rank]]) for i in range(3 - rank)]
    with Join([model]):
        for batch in batches:
            optimizer.zero_grad()
            accelerator.backward((model(batch) - batch * 0.3 + 1).square().mean())
            optimizer.step()
    yield "join", [each.tolist() for each in accelerator.unwrap_model(model).parameters()]


class Kept:
    def __init__(self, value):
        self.value = value

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


def states(accelerator_of, folder):
    accelerator = accelerator_of(project_config=ProjectConfiguration(
        project_dir=folder, automatic_checkpoint_naming=True, total_limit=2))
    model, optimizer = torch.nn.Linear(1, 1), None
    optimizer = torch.optim.Adam(model.parameters())
    model, optimizer = accelerator.prepare(model, optimizer)
    objects = [Kept(1), Kept(2)]
    accelerator.register_for_checkpointing(*objects)
    left = []
    for save in range(4):
        for each in objects:
            each.value += 10
        accelerator.save_state()
        accelerator.wait_for_everyone()
        left.append(sorted(each.name for each in pathlib.Path(folder, "checkpoints").iterdir()))
        accelerator.wait_for_everyone()
    yield "checkpoints", {"left": left, "next": accelerator.project_configuration.iteration}
    for each in objects:
        each.value = 0
    accelerator.load_state()
    yield "load_state", {"values": [each.value for each in objects],
                         "next": accelerator.project_configuration.iteration}
    accelerator.free_memory(model, optimizer)
    yield "free_memory", {"models": len(accelerator._models), "optimizers": len(accelerator._optimizers)}


def run_rank(file, folder):
    config = {"cpu": True, "dataloader_config": DataLoaderConfiguration(even_batches=True)}

    def accelerator_of(**more):
        return Accelerator(**config, **more)

    accelerator = accelerator_of()
    facts = {}
    # Accumulation comes last: all Accelerators of a process share whether gradients are synchronised.
    for part in (collectives(accelerator), splits(accelerator), loaders(accelerator), triggers(accelerator),
                 join(accelerator_of), states(accelerator_of, folder), windows(accelerator_of)):
        for name, value in part:
            facts[name] = of_both(value)
    if accelerator.is_main_process:
        pathlib.Path(file).write_text(json.dumps(facts))
    accelerator.end_training()


def main():
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        run_rank(sys.argv[1], sys.argv[2])
        return
    with tempfile.TemporaryDirectory() as folder:
        file = folder + "/facts.json"
        subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--rdzv_backend", "c10d",
                        "--rdzv_endpoint", "localhost:0", __file__, file, folder], check=True, stdout=sys.stderr,
                       env={**os.environ, "ACCELERATE_USE_CPU": "true"})
        facts = json.loads(pathlib.Path(file).read_text())
    versions = {"accelerate": accelerate.__version__, "transformers": transformers.__version__,
                "torch": torch.__version__}
    lines = [f'"versions": {json.dumps(versions)}']
    lines += [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in facts.items()]
    print("{\n" + ",\n".join(lines) + "\n}")


main()
