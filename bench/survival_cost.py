#!/usr/bin/env python3
"""What it costs in a step that ranks survive others: the same trainings with and without it, in turn.

    python3 bench/survival_cost.py [--bin build/release/bin] [--ranks N] [--rounds N] [--model NAME] [--steps N]

4 texts of 32 tokens on each rank, AdamW, one virtual shard and one thread a rank. A round is one training of each kind.
Its time is that of its last half, from the report "phases" of metrics.jsonl; the table has medians over the rounds,
and the least and the most. Run it on a machine that does nothing else, with a core for each rank.

optimizer: the optimizer's step. other: neither that nor forward and backward.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
STEPS = {"bert-tiny": 1000, "bert-mini": 300}


def step_of(flags, model, steps, survives):
    """Seconds of a step: elapsed, optimizer, other."""
    with tempfile.TemporaryDirectory(prefix="survival-cost-") as folder:
        lockstep = str(flags.bin / "lockstep")
        words = [lockstep, "run", "--nproc-per-node", str(flags.ranks), lockstep, "train", "--task",
                 "text-classification", "--model", model, "--tokenizer", DATA / "reviews-vocab", "--train-file",
                 DATA / "reviews.csv", "--label-column", "division", "--max-length", "32",
                 "--per-device-train-batch-size", "4", "--max-steps", str(steps), "--logging-steps", str(steps // 2),
                 "--save-strategy", "no", "--virtual-shards", str(flags.ranks), "--survive-lost-ranks",
                 "true" if survives else "false", "--output-dir", folder]
        done = subprocess.run(words, env=dict(os.environ, OMP_NUM_THREADS="1"), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{model}: exit code {done.returncode}\n{done.stderr}")
        lines = map(json.loads, (pathlib.Path(folder) / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        last = [line for line in lines if line["kind"] == "phases"][-1]
        return [last[name] / (steps // 2) for name in ("elapsed_s", "optimizer_s", "data_s")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", choices=sorted(STEPS), help="of the models, this one alone")
    parser.add_argument("--steps", type=int, help="of a training; even")
    flags = parser.parse_args()
    flags.bin = flags.bin.resolve()
    print("| | survival | a step, ms | optimizer, ms | other, ms |\n|---|---|---|---|---|")
    for model in [flags.model] if flags.model else STEPS:
        rows = {False: [], True: []}
        for _ in range(flags.rounds):
            for survives, row in rows.items():
                row.append(step_of(flags, model, flags.steps or STEPS[model], survives))
        for survives, row in rows.items():
            cells = [f"{1e3 * statistics.median(part):.2f} ({1e3 * min(part):.2f} to {1e3 * max(part):.2f})"
                     for part in zip(*row)]
            print(f"| {model} | {'yes' if survives else 'no'} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
