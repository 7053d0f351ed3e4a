"""Runs clang-tidy over all headers at once: check_tidy.py ROOT COMPILE_COMMANDS CLANG_TIDY

The rules are in .clang-tidy; every finding is an error. Headers of kernels and of engines that need their own libraries are left out: they
are compiled with flags of their own.
"""
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

root, commands, clang_tidy = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
OWN_FLAGS = ("simd_", "kernel_loops", "comm/nccl/", "comm/mpi/", "comm/gloo/")

entry = next(each for each in json.loads(commands.read_text()) if "/lockstep_train.dir/" in each["command"])
words = shlex.split(entry["command"])
flags = [word for i, word in enumerate(words)
         if word.startswith(("-I", "-isystem", "-D", "-std=")) or words[i - 1] in ("-I", "-isystem", "-D")]
headers = sorted(str(file.relative_to(folder)) for folder in (root / "include", root / "src")
                 for file in folder.rglob("*.h") if not any(part in str(file) for part in OWN_FLAGS))
with tempfile.TemporaryDirectory(prefix="lockstep-tidy-") as folder:
    all_headers = pathlib.Path(folder) / "all_headers.cpp"
    all_headers.write_text("".join(f'#include "{header}"\n' for header in headers))
    done = subprocess.run([clang_tidy, f"--config-file={root}/.clang-tidy", "--quiet", str(all_headers), "--", *flags],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
wrong = [line for line in done.stdout.splitlines() if "error:" in line or "warning:" in line]
if done.returncode and not wrong:
    wrong.append(f"{clang_tidy} ended with {done.returncode}: {done.stderr[-2000:]}")
print(f"{len(headers)} headers checked")
if not headers:
    wrong.append("no header was found, so nothing was checked")
sys.exit("\n".join(wrong) or 0)
