"""Fails if clang-format would change a source file: check_format.py ROOT CLANG_FORMAT [--fix]"""
import pathlib
import subprocess
import sys

root, clang_format = pathlib.Path(sys.argv[1]), sys.argv[2]
files = sorted(str(file) for folder in ("include", "src", "tools", "bench", "examples", "tests")
               for file in (root / folder).rglob("*") if file.suffix in (".h", ".cpp", ".inl"))
mode = ["-i"] if "--fix" in sys.argv else ["--dry-run", "-Werror", "--ferror-limit=1"]
wrong = []
for start in range(0, len(files), 100):
    done = subprocess.run([clang_format, *mode, *files[start:start + 100]], stderr=subprocess.PIPE, text=True)
    wrong += [line for line in done.stderr.splitlines() if "error:" in line]
print(f"{len(files)} files checked")
if not files:
    wrong.append(f"{root}: no source file found, so nothing was checked")
sys.exit("\n".join(wrong) or 0)
