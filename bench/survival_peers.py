#!/usr/bin/env python3
"""How long a training pauses, and how many steps it loses, if a rank is killed: Lockstep, torchrun and TorchFT.

    python3 bench/survival_peers.py [--bin build/release/bin] [--python PYTHON] [--torchft FOLDER] [--only NAME]
                                    [--ranks N] [--kills N] [--seed N] [--json]

bert-tiny, 4 texts of 32 tokens on each rank, AdamW. One rank is killed by SIGKILL each few seconds, at moments that the
seed chooses, equal for all systems:

    lockstep          lockstep run --warm-spares lockstep train --survive-lost-ranks true
    torchrun          DDP of PyTorch, a checkpoint each step, torchrun --max_restarts; a store of its own for each
                      start (TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1): in the shared one, a rank of PyTorch 2.15 may read
                      the address that a dead rank has left, and wait for it in vain
    torchrun, tuned   the same with --monitor_interval 0.1
    torchft           one replica for each rank, and the lighthouse; a replica that ended is started again at once,
                      and killed again only after it has joined. FOLDER: where pip --target has put torchft

PYTHON needs torch; for TorchFT, in a place of its own because it may ask for another torch:

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/pip install --no-deps --target torchft torchft
    venv/bin/pip install --target torchft requests protobuf opentelemetry-exporter-otlp-proto-http

pause: the longest time between two steps around a kill. lost: steps that were done, and are done again. A row of the
table is one system, over all kills that it survived; a line below it says at which kill it failed, and how.
"""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "data"
SETTLED = 20  # steps after which a kill counts as survived
PATIENCE_S = 120


class Job:
    """A running training. `steps()` are its reports, as (time, steps done)."""

    def __init__(self, folder, flags):
        self.folder, self.flags, self.processes = pathlib.Path(folder), flags, []
        self.failures = 0  # ranks that ended, but were not killed

    def start(self, words, **variables):
        environment = dict(os.environ, OMP_NUM_THREADS="1", **variables)
        log = open(self.folder / "log", "ab")
        self.processes.append(subprocess.Popen(words, stdout=log, stderr=log, env=environment, start_new_session=True))
        return self.processes[-1]

    def lines(self, name):
        try:
            return (self.folder / name).read_text(encoding="utf-8").split("\n")[:-1]
        except FileNotFoundError:
            return []

    def steps(self):
        return [(float(words[0]), int(words[1])) for words in map(str.split, self.lines("steps"))]

    def victim(self, draw):
        return int((self.folder / f"pid.{draw % self.flags.ranks}").read_text(encoding="utf-8"))

    def is_whole(self):
        """Whether all ranks train, so that the next kill may come."""
        return True

    def keep_going(self):
        """Called often: what a launcher of the system would do."""
        if self.processes[0].poll() is not None:
            raise RuntimeError("the job ended: " + self.last_error())

    def last_error(self):
        """The last line of the log that names an error."""
        lines = [line.strip() for line in self.lines("log") if line.strip()]
        errors = [line for line in lines if re.search(r"\b\w*(Error|Exception)\b", line)]
        return (errors or lines or ["it wrote no log"])[-1][:200]

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Lockstep(Job):
    def begin(self):
        lockstep = str(pathlib.Path(self.flags.bin).resolve() / "lockstep")
        self.start([lockstep, "run", "--nproc-per-node", str(self.flags.ranks), "--max-restarts", "1000",
                    "--warm-spares", lockstep, "train", "--task", "text-classification", "--model", "bert-tiny",
                    "--tokenizer", DATA / "reviews-vocab", "--train-file", DATA / "reviews.csv", "--label-column",
                    "division", "--max-length", "32", "--per-device-train-batch-size", "4", "--virtual-shards",
                    str(self.flags.ranks), "--survive-lost-ranks", "true", "--max-steps", "1000000",
                    "--logging-steps", "1", "--save-strategy", "no", "--output-dir", self.folder / "out"])

    def steps(self):
        logged = [json.loads(line) for line in self.lines("out/metrics.jsonl")]
        return [(line["time"], line["step"]) for line in logged if line["kind"] == "log"]

    def victim(self, draw):
        """The members are older than the processes that wait for their places."""
        found = []
        for folder in pathlib.Path("/proc").iterdir():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if str(self.folder / "out").encode() in words and words[0].endswith(b"lockstep-torch"):
                    started = (folder / "stat").read_text().rsplit(")", 1)[1].split()[19]
                    found.append((int(started), int(folder.name)))
            except (OSError, ValueError):
                continue
        return sorted(found)[draw % 2][1] if len(found) > self.flags.ranks else sorted(found)[0][1]


class Torchrun(Job):
    more = ()

    def begin(self):
        self.start([self.flags.python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node",
                    str(self.flags.ranks), "--max_restarts", "1000", *self.more, HERE / "peers/pytorch_survival.py",
                    self.folder, "ddp"], TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")


class TunedTorchrun(Torchrun):
    more = ("--monitor_interval", "0.1")


class TorchFT(Job):
    def begin(self):
        paths = [self.flags.torchft] if self.flags.torchft else []
        self.variables = {"PYTHONPATH": os.pathsep.join(paths + [os.environ.get("PYTHONPATH", "")]),
                          "TORCHFT_LIGHTHOUSE": "http://localhost:29511"}
        program = self.folder / "lighthouse.py"  # it reads the process's words, so it cannot stand behind -c
        program.write_text("from torchft._torchft import lighthouse_main\nlighthouse_main()\n", encoding="utf-8")
        self.start([self.flags.python, program, "--bind", "[::]:29511", "--min_replicas", "1",
                    "--join_timeout_ms", "1000"], **self.variables)
        self.replicas = [self.start_replica(rank) for rank in range(self.flags.ranks)]

    def start_replica(self, rank):
        return self.start([self.flags.python, HERE / "peers/pytorch_survival.py", self.folder, "torchft"],
                          REPLICA=str(rank), **self.variables)

    def steps(self):
        """All replicas report each step; the first report counts."""
        first = {}
        for when, step in super().steps():
            first[step] = min(when, first.get(step, when))
        return sorted((when, step) for step, when in first.items())

    def is_whole(self):
        """A replica writes its number once it has done a step together with the others."""
        return all(self.lines(f"pid.{rank}") == [str(replica.pid)] for rank, replica in enumerate(self.replicas))

    def keep_going(self):
        super().keep_going()
        for rank, replica in enumerate(self.replicas):
            if replica.poll() is not None:
                self.failures += replica.returncode != -signal.SIGKILL
                self.replicas[rank] = self.start_replica(rank)


SYSTEMS = {"lockstep": Lockstep, "torchrun": Torchrun, "torchrun, tuned": TunedTorchrun, "torchft": TorchFT}


def wait_for(job, is_there):
    end = time.monotonic() + PATIENCE_S
    while not is_there(job.steps()):
        job.keep_going()
        if time.monotonic() > end:
            raise RuntimeError(f"not going on after {PATIENCE_S} s: " + job.last_error())
        time.sleep(0.01)
    return job.steps()


def around_kill(steps, killed_at):
    """(pause in seconds, steps lost) of a kill."""
    before = max(i for i, (when, _) in enumerate(steps) if when <= killed_at)
    window = steps[before:]
    at = max(range(1, len(window)), key=lambda i: window[i][0] - window[i - 1][0])
    reached = max(step for _, step in window[:at])
    return window[at][0] - window[at - 1][0], max(0, reached + 1 - window[at][1])


def kill_ranks(job, flags, row):
    """Fills the row; at an exception it holds what was measured before."""
    draws = random.Random(flags.seed)
    job.begin()
    first = wait_for(job, lambda steps: len(steps) > 2 * SETTLED)
    row["step_s"] = statistics.median(b[0] - a[0] for a, b in zip(first[SETTLED:], first[SETTLED + 1:]))
    for _ in range(flags.kills):
        until = time.monotonic() + 3 + 2 * draws.random()  # spares are loaded
        while time.monotonic() < until:
            job.keep_going()
            time.sleep(0.01)
        reached = wait_for(job, lambda _: job.is_whole())[-1][1]
        victim, killed_at = job.victim(draws.randrange(1000)), time.time()
        row["tried"] += 1
        os.kill(victim, signal.SIGKILL)
        row["survived"].append(around_kill(wait_for(job, lambda steps: steps[-1][1] > reached + SETTLED), killed_at))


def row_of(name, flags):
    row = {"system": name, "tried": 0, "survived": []}
    with tempfile.TemporaryDirectory(prefix="survival-", ignore_cleanup_errors=True) as folder:
        job = SYSTEMS[name](folder, flags)
        try:
            kill_ranks(job, flags, row)
        except (RuntimeError, OSError) as problem:
            row["problem"] = f"failed at kill {row['tried']}: {problem}" if row["tried"] else f"left out: {problem}"
        finally:
            job.end()
    row["failures"] = job.failures
    survived = row.pop("survived")
    row["kills"] = len(survived)
    if survived:
        pauses = sorted(pause for pause, _ in survived)
        row.update(median_s=statistics.median(pauses), p99_s=pauses[-(-99 * len(pauses) // 100) - 1],
                   longest_s=pauses[-1], lost_steps=sum(lost for _, lost in survived) / len(survived))
    return row


def print_row(row):
    name = f"{row['system']:17}"
    if row["kills"]:
        print(f"{name} {row['kills']:5} {1e3 * row['step_s']:8.1f} {row['median_s']:16.3f} "
              f"{row['p99_s']:8.3f} {row['longest_s']:8.3f} {row['lost_steps']:16.2f}")
    if "problem" in row:
        print(f"{name} {row['problem']}")
    if row["failures"]:
        print(f"{name} {row['failures']} ranks failed that were not killed, and were started again")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--torchft", default="")
    parser.add_argument("--only", choices=SYSTEMS, action="append")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    rows = [row_of(name, flags) for name in flags.only or SYSTEMS]
    if flags.json:
        print(json.dumps(rows, indent=2))
        return 0
    print(f"{'':17} {'kills':>5} {'step ms':>8} {'pause s: median':>16} {'p99':>8} {'longest':>8} "
          f"{'lost steps/kill':>16}")
    for row in rows:
        print_row(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
