#!/usr/bin/env python3
"""Prints what one training step asks of CUDA devices, by Lockstep and by PyTorch: the table in docs/performance/gpu.md.

    python3 tests/fake_gpu/counts/step_counts.py BUILD [--python PYTHON] [--only WAY]

BUILD has engine nccl and the targets fake_gpu, step_counts and lockstep. PYTHON has the torch of BUILD, and transformers
and accelerate for Hugging Face's Trainer; without it Lockstep's rows are printed alone. The devices are fake ones
(tests/fake_gpu/README.md), which count calls and show nothing of time.
"""
import argparse
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
WAYS = {
    "alone": ("one device, no wrapper", 1),
    "dataparallel": ("DataParallel, 2 devices", 1),
    "ddp": ("DistributedDataParallel, 2 ranks", 2),
    "trainer": ("Trainer, 2 ranks", 2),
}
COLUMNS = [("host_waits", "host waits"), ("launches", "kernels"), ("copies", "copies"), ("stream_waits", "stream waits"),
           ("events", "events"), ("nccl_calls", "NCCL calls"), ("nccl_launches", "NCCL launches"),
           ("contexts", "contexts"), ("peak_bytes", "peak MB")]


def counts_of(build, command):
    """The numbers of the line that a program prints, by name; nothing if it fails."""
    words = [HERE.parent / "with_fake_gpus", build, "2", *command]
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))
    for line in done.stdout.splitlines():
        at = line.find("counts host_waits")  # a launcher may put a prefix before it
        if at >= 0:
            return {name: int(value) for name, value in (word.split("=") for word in line[at:].split()[1:])}
    print(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr[-2000:]}", file=sys.stderr)
    return {}


def row(title, counts):
    def text(name):
        if name not in counts:
            return "-"
        return f"{counts[name] / 2**20:.0f}" if name == "peak_bytes" else str(counts[name])
    return f"| {title} | {' | '.join(text(name) for name, _ in COLUMNS)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--python", type=pathlib.Path)
    parser.add_argument("--only", choices=WAYS)
    flags = parser.parse_args()
    programs = flags.build / "bin"
    print(f"| one step on rank 0 | {' | '.join(title for _, title in COLUMNS)} |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for way, (title, ranks) in WAYS.items():
        if flags.only not in (None, way):
            continue
        own = [programs / "step_counts", way]
        other = [flags.python, HERE / "step_counts_torch.py", way]
        if ranks > 1:
            own = [programs / "lockstep", "run", "--nproc-per-node", ranks, *own]
            other[1:1] = ["-m", "torch.distributed.run", "--nproc-per-node", ranks]
        print(row(f"{title}: Lockstep", counts_of(flags.build, own)), flush=True)
        if flags.python:
            peer = "Hugging Face" if way == "trainer" else "PyTorch"
            print(row(f"{title}: {peer}", counts_of(flags.build, other)), flush=True)


if __name__ == "__main__":
    main()
