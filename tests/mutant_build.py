"""Breaks a source file in one place, links programs of a build folder with it, and looks whether they notice.

For the scripts that show that tests can fail: tests/mutants.py, tests/simulation/mutants.py,
tests/parallel/fused/survival/mutants.py. A program must pass before it counts as noticing something, and a filter must
match a test.
"""
import argparse
import fnmatch
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


# The changed file itself, whose code comes before that of the library.
def one_object(builder, mutant, folder):
    built = folder / "mutant.o"
    if not built.exists():
        builder.compile(mutant.file, write_changed(builder, mutant, folder), built)
    return [built]


# The changed file with the others of its batch, which may have the old code inlined. It takes longer to compile.
def whole_batch(builder, mutant, folder):
    built = folder / "mutants_batch.o"
    if not built.exists():
        changed = folder / "batch.cpp"
        own = write_changed(builder, mutant, folder)
        changed.write_text(builder.batch_of(mutant.file).read_text().replace(
            f'"{builder.source / mutant.file}"', f'"{own}"'))
        builder.compile(mutant.file, changed, built)
    return [built]


def write_changed(builder, mutant, folder):
    changed = folder / pathlib.Path(mutant.file).name
    changed.write_text(mutant.text(builder.source))
    return changed


# For a mutant in a header: files that include it, compiled with the changed one.
def with_header(files):
    def objects(builder, mutant, folder):
        changed = folder / "changed" / pathlib.Path(*pathlib.Path(mutant.file).parts[1:])  # without src or include
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.write_text(mutant.text(builder.source))
        built = [folder / (pathlib.Path(file).stem + ".o") for file in files]
        for file, out in zip(files, built):
            if not out.exists():
                builder.compile(file, builder.source / file, out, folder / "changed")
        return built
    return objects


@dataclass
class Look:
    program: str  # may notice a mutant
    words: list   # of its command
    objects: Callable = one_object  # of (builder, mutant, folder): what is compiled again
    without: str = None  # objects of the program below this folder of the build are left out
    starts: str = None   # a program of the build folder that `program` starts, and that has the mutant in its place
    variables: dict = None  # of its environment; None: without this one

    def name(self):
        return shlex.join([self.program] + [word for word in self.words if word != "--gtest_fail_fast"])


@dataclass
class Mutant:
    what: str  # is wrong then
    file: str  # below the source folder
    old: str   # stands there, once
    new: str   # stands there instead
    looks: list = field(default_factory=list)

    def description(self):
        return "\n    ".join([f"{self.what} ({self.file})"] + [look.name() for look in self.looks])

    def text(self, source):
        return (source / self.file).read_text().replace(self.old, self.new)


class Builder:
    """Compiles and links as the build folder does, which must have been built."""

    def __init__(self, source, build):
        self.source, self.build = source.resolve(), build.resolve()
        self.commands = json.loads((self.build / "compile_commands.json").read_text())

    # How the file is compiled, alone or in a batch of files.
    def entry_of(self, file):
        path = str(self.source / file)
        for entry in self.commands:
            if entry["file"] == path:
                return entry
            if "/Unity/" in entry["file"] and f'"{path}"' in pathlib.Path(entry["file"]).read_text():
                return entry
        sys.exit(f"the build folder does not know {file}")

    def batch_of(self, file):
        path = pathlib.Path(self.entry_of(file)["file"])
        return path if path != self.source / file else None

    def compile_words(self, file):
        entry = self.entry_of(file)
        words = shlex.split(entry["command"])
        at = words.index("-o")
        del words[at:at + 2]
        del words[words.index("-c"):]
        return words, entry["directory"]

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


# Names in what --gtest_list_tests prints: a suite's line ends with a point, and its tests are indented below it.
def tests_in(listing):
    names, suite = [], ""
    for line in listing.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith("  "):
            names.append(suite + name)
        elif name.endswith("."):
            suite = name
    return names


# As --gtest_filter does: patterns of names, and behind the first '-' patterns of those to leave out.
def matches(test, chosen):
    wanted, _, unwanted = chosen.partition("-")
    is_in = [any(fnmatch.fnmatchcase(test, each) for each in part.split(":")) for part in (wanted, unwanted)]
    return is_in[0] and not is_in[1]


class Runner:
    """Runs programs. @param with_long  suites whose names end in Long, too, and tests in full"""

    def __init__(self, builder, limit_s, with_long):
        self.builder, self.limit_s, self.with_long = builder, limit_s, with_long
        self.environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
        self.environment.pop("LOCKSTEP_LONG_TESTS", None)
        if with_long:
            self.environment["LOCKSTEP_LONG_TESTS"] = "1"
        self.passing = {}  # by the name of a look
        self.tests = {}    # by program

    def words_of(self, look):
        return [self.without_long(word) if word.startswith("--gtest_filter=") else word for word in look.words]

    def without_long(self, chosen):
        if self.with_long:
            return chosen
        return chosen + (":" if "-" in chosen[len("--gtest_filter="):] else "-") + "*Long.*:*Long/*"

    def run(self, words, variables=None):
        """Returns the exit status, or None of a program that is stuck, and the output."""
        environment = dict(self.environment, **(variables or {}))
        environment = {name: value for name, value in environment.items() if value is not None}
        try:
            done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=self.limit_s, env=environment, errors="replace")
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired as stuck:
            return None, (stuck.stdout or b"").decode(errors="replace")

    def has_tests(self, look):
        program = self.builder.build / "bin" / look.program
        filters = [word.split("=", 1)[1] for word in self.words_of(look) if word.startswith("--gtest_filter=")]
        if not filters or not program.exists():
            return program.exists()
        if look.program not in self.tests:
            self.tests[look.program] = tests_in(self.run([program, "--gtest_list_tests"])[1])
        return any(matches(test, filters[0]) for test in self.tests[look.program])

    def noticed_by(self, program, look):
        """The first line that says what is wrong; nothing if all is well."""
        status, out = self.run([program, *self.words_of(look)], look.variables)
        if " Running 0 tests " in out:
            sys.exit(f"{look.name()} has no test")
        if status == 0:
            return ""
        lines = [line for line in out.splitlines() if " FAILED: " in line or line.startswith("[  FAILED  ] ")]
        if lines:
            return lines[0].replace("[  FAILED  ] ", f"{look.program}: ")
        running = [line for line in out.splitlines() if line.startswith("[ RUN ")]
        how = (f"{look.program} does not end within {self.limit_s} s" if status is None
               else f"{look.program} ends with {status}")
        return how + (", in " + running[-1][len("[ RUN      ] "):] if running else "")

    # What fails without a mutant shows nothing. A program whose objects are exchanged is not the one that was built.
    def require_passing(self, look):
        if look.without:
            return
        if look.name() not in self.passing:
            self.passing[look.name()] = self.noticed_by(self.builder.build / "bin" / look.program, look)
        if self.passing[look.name()]:
            sys.exit(f"{look.name()} fails without a mutant: {self.passing[look.name()]}")

    # What starts the program looks for it in the build folder.
    def noticed_by_who_starts_it(self, look, objects):
        place = self.builder.build / "bin" / look.starts
        kept = place.with_suffix(".whole")
        place.rename(kept)
        try:
            self.builder.link(look.starts, objects, place)
            return self.noticed_by(self.builder.build / "bin" / look.program, look)
        finally:
            kept.replace(place)

    def looks_at(self, look, objects, folder):
        if look.starts:
            seen = self.noticed_by_who_starts_it(look, objects)
        else:
            program = folder / look.program
            self.builder.link(look.program, objects, program, look.without)
            seen = self.noticed_by(program, look)
        if seen:
            self.require_passing(look)
        return seen

    def find(self, mutant):
        """Who notices the mutant; nothing if nobody does."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for look in mutant.looks:
                if seen := self.looks_at(look, look.objects(self.builder, mutant, folder), folder):
                    return seen
            for look in mutant.looks:
                if look.objects is not one_object or self.builder.batch_of(mutant.file) is None:
                    continue
                if seen := self.looks_at(look, whole_batch(self.builder, mutant, folder), folder):
                    return seen
        return ""


def check_places(source, mutants):
    """Ends the script unless each mutant's old text stands in its file once."""
    wrong = []
    for each in mutants:
        path = source / each.file
        count = path.read_text().count(each.old) if path.exists() else 0
        if count != 1:
            wrong.append(f"{each.what}: {each.file} has {count} times: {each.old}")
    if wrong:
        sys.exit("\n".join(wrong))


def check_filters(runner, mutants, leave_out=()):
    """Ends the script unless each mutant has tests that may notice it."""
    looks = {look.name(): look for mutant in mutants for look in mutant.looks if look.program not in leave_out}
    wrong = [f"no test, or no such program: {name}" for name, look in looks.items() if not runner.has_tests(look)]
    if wrong:
        sys.exit("\n".join(wrong))


def parse_flags(description, seeds=None, limit_s=1800):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    if seeds:
        parser.add_argument("--seeds", type=int, default=seeds, help="of the simulator, for each mutant")
    parser.add_argument("--limit", type=int, default=limit_s, help="seconds for one program")
    parser.add_argument("--only", default="", help="a pattern: mutants whose entry in --list has it")
    parser.add_argument("--list", action="store_true", help="prints the mutants and who must notice them")
    parser.add_argument("--check", action="store_true", help="looks only whether all places and tests are there")
    parser.add_argument("--long", action="store_true", help="tests of suites whose names end in Long may notice, too")
    return parser.parse_args()


def look_for(flags, mutants):
    check_places(flags.source, mutants)
    chosen = [mutant for mutant in mutants if re.search(flags.only, mutant.description())]
    if not chosen:
        sys.exit(f"nothing in the list of mutants has {flags.only}")
    if flags.list:
        print("\n".join(each.description() for each in chosen))
        return 0
    builder = Builder(flags.source, flags.build)
    runner = Runner(builder, flags.limit, flags.long)
    programs = {look.program for mutant in chosen for look in mutant.looks}
    not_built = {each for each in programs if not (builder.build / "bin" / each).exists()} if flags.check else ()
    check_filters(runner, chosen, not_built)
    if flags.check:
        return 0
    survived = 0
    for mutant in chosen:
        begin = time.monotonic()
        try:
            seen = runner.find(mutant)
        except subprocess.CalledProcessError as failed:
            sys.exit(f"{mutant.what}: it does not compile, or does not link: {shlex.join(map(str, failed.cmd))}")
        survived += not seen
        print(f"{mutant.what}: {seen or 'NOT NOTICED'} ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} mutants noticed")
    return 1 if survived else 0
