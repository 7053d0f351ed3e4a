"""Breaks a source file in one place, links programs of a build folder with it, and looks whether they notice.

For the scripts that show that tests can fail: tests/simulation/mutants.py, tests/parallel/fused/survival/mutants.py.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Callable


# The changed file itself.
def one_object(builder, mutant, folder):
    built = folder / "mutant.o"
    if not built.exists():
        changed = folder / pathlib.Path(mutant.file).name
        changed.write_text(mutant.text(builder.source))
        builder.compile(mutant.file, changed, built)
    return [built]


@dataclass
class Look:
    program: str  # may notice a mutant
    words: list   # of its command
    objects: Callable = one_object  # of (builder, mutant, folder): what is compiled again
    without: str = None  # objects of the program below this folder of the build are left out
    starts: str = None   # a program of the build folder that `program` starts, and that has the mutant in its place


@dataclass
class Mutant:
    what: str  # is wrong then
    file: str  # below the source folder
    old: str   # stands there, once
    new: str   # stands there instead
    looks: list = field(default_factory=list)

    def text(self, source):
        return (source / self.file).read_text().replace(self.old, self.new)


class Builder:
    """Compiles and links as the build folder does, which must have been built."""

    def __init__(self, source, build):
        self.source, self.build = source.resolve(), build.resolve()
        self.commands = json.loads((self.build / "compile_commands.json").read_text())

    # The batch of files that has this one was compiled like it is.
    def compile_words(self, file):
        path = str(self.source / file)
        for entry in self.commands:
            batch = pathlib.Path(entry["file"])
            if str(batch) != path and not ("/Unity/" in str(batch) and f'"{path}"' in batch.read_text()):
                continue
            words = shlex.split(entry["command"])
            at = words.index("-o")
            del words[at:at + 2]
            del words[words.index("-c"):]
            return words, entry["directory"]
        sys.exit(f"the build folder does not know {file}")

    def compile(self, file, changed, built, first_includes=None):
        words, directory = self.compile_words(file)
        if first_includes:
            words.insert(1, f"-I{first_includes}")
        subprocess.run(words + ["-w", "-c", str(changed), "-o", str(built)], check=True, cwd=directory)

    # The changed objects stand before the libraries, so their definitions are the first, and count.
    def link(self, program, objects, out, without=None):
        commands = subprocess.run(["ninja", "-C", self.build, "-t", "commands", program], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout
        words = shlex.split(commands.splitlines()[-1])
        words = words[words.index("&&") + 1:] if words[0] == ":" else words
        words = words[:words.index("&&")] if "&&" in words else words
        words = [word for word in words if without is None or not word.startswith(without)]
        at = words.index("-o")
        words[at + 1] = str(out)
        words[at:at] = [str(each) for each in objects]
        subprocess.run(words + ["-Wl,--allow-multiple-definition"], check=True, cwd=self.build)


def run(words, limit_s):
    """Returns the exit status, a word for a program that is stuck, and the output."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit_s,
                              env=environment, errors="replace")
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as stuck:
        return None, (stuck.stdout or b"").decode(errors="replace")


def noticed_by(program, words, limit_s):
    """The first line that says what is wrong; nothing if all is well."""
    status, out = run([str(program)] + words, limit_s)
    if status == 0:
        return ""
    lines = [line for line in out.splitlines() if " FAILED: " in line or line.startswith("[  FAILED  ] ")]
    if lines:
        return lines[0].replace("[  FAILED  ] ", f"{program.name}: ")
    running = [line for line in out.splitlines() if line.startswith("[ RUN ")]
    how = f"{program.name} does not end within {limit_s} s" if status is None else f"{program.name} ends with {status}"
    return how + (", in " + running[-1][len("[ RUN      ] "):] if running else "")


# What starts the program looks for it in the build folder.
def noticed_by_who_starts_it(builder, look, objects, limit_s):
    place = builder.build / "bin" / look.starts
    kept = place.with_suffix(".whole")
    place.rename(kept)
    try:
        builder.link(look.starts, objects, place)
        return noticed_by(builder.build / "bin" / look.program, look.words, limit_s)
    finally:
        kept.replace(place)


def check_places(source, mutants):
    for each in mutants:
        count = (source / each.file).read_text().count(each.old)
        if count != 1:
            sys.exit(f"{each.what}: {each.file} has {count} times: {each.old}")


def find(builder, mutant, limit_s):
    """Who notices the mutant; nothing if nobody does."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for look in mutant.looks:
            objects = look.objects(builder, mutant, folder)
            if look.starts:
                seen = noticed_by_who_starts_it(builder, look, objects, limit_s)
            else:
                builder.link(look.program, objects, folder / look.program, look.without)
                seen = noticed_by(folder / look.program, look.words, limit_s)
            if seen:
                return seen
    return ""


def parse_flags(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=20000, help="of the simulator, for each mutant")
    parser.add_argument("--limit", type=int, default=1800, help="seconds for one program")
    parser.add_argument("--only", default="", help="a pattern: mutants whose description has it")
    return parser.parse_args()


def look_for(flags, mutants):
    check_places(flags.source, mutants)
    builder = Builder(flags.source, flags.build)
    chosen = [mutant for mutant in mutants if re.search(flags.only, mutant.what)]
    survived = 0
    for mutant in chosen:
        begin = time.monotonic()
        try:
            seen = find(builder, mutant, flags.limit)
        except subprocess.CalledProcessError as failed:
            sys.exit(f"{mutant.what}: it does not compile, or does not link: {shlex.join(map(str, failed.cmd))}")
        survived += not seen
        print(f"{mutant.what}\n    {seen or 'NOT NOTICED'}  ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} mutants noticed")
    return 1 if survived else 0
