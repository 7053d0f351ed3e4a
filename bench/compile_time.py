"""How long a program's file takes to compile with Lockstep's headers, beyond LibTorch's own.

usage: bench/compile_time.py [BUILD] [--rounds N] [--optimize LEVEL] [--headers]
    BUILD       a configured build folder, for the compiler's flags; default: build/release
    --rounds    turns of each program; the least time counts. Default: 3
    --optimize  0 to 3, as the compiler's -O. Default: 2
    --headers   prints which of LibTorch's headers each program opens, by their number, and compiles nothing

Processor seconds of the compiler; other programs on the machine only make them longer, so the least counts. Precompiled
headers and ccache are left out: a program of a user has neither. Each program makes a module and calls it, because that
alone makes the compiler build much of LibTorch's module, which is not Lockstep's time.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import shlex
import subprocess
import tempfile

SMALL_MODEL = """
struct Net : torch::nn::Module {{
  at::Tensor forward(const at::Tensor& x) {{ return x; }}
}};
int main() {{
{body}
}}
"""
CALL = """  auto net = std::make_shared<Net>();
  net->forward(at::Tensor());"""
WRAP = """  auto net = std::make_shared<Net>();
  lockstep::DistributedDataParallel ddp(net);
  ddp(at::Tensor());"""
DDP = '#include "lockstep/parallel/distributed_data_parallel.h"\n'

# Name, text, and the program whose time is subtracted.
PROGRAMS = (
    ("torch/torch.h", "#include <torch/torch.h>\n" + SMALL_MODEL.format(body=CALL), None),
    ("torch/torch.h, and wrap a module", "#include <torch/torch.h>\n" + DDP + SMALL_MODEL.format(body=WRAP), "torch/torch.h"),
    ("torch/nn/module.h", "#include <torch/nn/module.h>\n" + SMALL_MODEL.format(body=CALL), None),
    ("torch/nn/module.h, and wrap a module", "#include <torch/nn/module.h>\n" + DDP + SMALL_MODEL.format(body=WRAP),
     "torch/nn/module.h"),
    ("torch/torch.h, and all of lockstep/lockstep.h",
     '#include <torch/torch.h>\n#include "lockstep/lockstep.h"\n' + SMALL_MODEL.format(body=WRAP), "torch/torch.h"),
)


def compiler_words(build):
    """The words with which the build compiles an example, without launcher, precompiled header, input and output."""
    entries = json.loads((build / "compile_commands.json").read_text())
    command = next(entry["command"] for entry in entries if "examples/CMakeFiles/ddp_mnist.dir" in entry["command"])
    words = shlex.split(command)
    compiler = next(i for i, word in enumerate(words) if re.search(r"(c\+\+|g\+\+|clang\+\+)(-\d+)?$", word))
    kept, skip = [words[compiler]], False
    for word in words[compiler + 1:]:
        if skip or word in ("-c", "-Winvalid-pch", "-fpch-preprocess") or word.endswith((".cpp", ".cxx")):
            skip = False
        elif word in ("-include", "-o"):
            skip = True
        elif not word.startswith("-W"):
            kept.append(word)
    return kept


def processor_seconds(words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def opened_headers(words):
    run = subprocess.run([*words, "-H", "-E", "-o", os.devnull], check=True, stderr=subprocess.PIPE, text=True)
    return re.findall(r"^\.+ (\S+)$", run.stderr, re.M)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default="build/release", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--optimize", default="2", choices="0123")
    parser.add_argument("--headers", action="store_true")
    options = parser.parse_args()
    words = [word for word in compiler_words(options.build) if not word.startswith("-O")] + [f"-O{options.optimize}"]
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for number, (name, text, _) in enumerate(PROGRAMS):
            files[name] = pathlib.Path(folder) / f"program{number}.cpp"
            files[name].write_text(text)
        if options.headers:
            for name, file in files.items():
                headers = opened_headers([*words, str(file)])
                torch = [header for header in headers if re.search(r"/(torch|ATen|c10)/", header)]
                ours = [header for header in headers if "/lockstep/" in header]
                print(f"{name}: {len(headers)} headers, {len(torch)} of LibTorch, {len(ours)} of Lockstep")
            return
        seconds = {name: [] for name in files}
        for _ in range(options.rounds):
            for name, file in files.items():
                seconds[name].append(processor_seconds([*words, "-c", str(file), "-o", os.devnull]))
    print(f"{'a file that includes':48} {'s':>6} {'beyond LibTorch':>16}")
    for name, _, base in PROGRAMS:
        own = min(seconds[name])
        more = f"{own - min(seconds[base]):16.2f}" if base else ""
        print(f"{name:48} {own:6.2f} {more}")


main()
