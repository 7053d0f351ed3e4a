"""The blocks of docs/building.md, and how its commands are run."""
import re
import subprocess
import sys

PROGRAM = "mine"


def blocks(source, heading):
    """The blocks of one section by kind, in their order; of "console" all commands in one list."""
    page = (source / "docs/building.md").read_text()
    text = re.search(rf"\n## {heading}\n(.*?)\n## ", page, re.S).group(1)
    found = {}
    for kind, body in re.findall(r"```(\w+)\n(.*?)```", text, re.S):
        body = [line[2:] for line in body.splitlines() if line.startswith("$ ")] if kind == "console" else [body]
        found.setdefault(kind, []).extend(body)
    return found


def run(command, folder, fails=False):
    print("$", command, flush=True)
    done = subprocess.run(command, shell=True, cwd=folder, timeout=600, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    print(done.stdout, flush=True)
    if fails != (done.returncode != 0):
        sys.exit(f"exit code {done.returncode}: {command}")
    return done.stdout


def check_ranks(printed):
    for rank in range(2):
        if not re.search(rf"rank {rank} of 2: -?\d+\.\d+", printed):
            sys.exit(f"rank {rank} printed nothing")
