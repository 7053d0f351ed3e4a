"""Runs the lessons: every `$` line of a console block, in a fresh folder with the project's data, and compares what it
prints.

In expected output, a number stands for any number and lines must come in this order; others may come between them, which `...` says to the reader.
A C++ block under `<!-- from FILE -->` must stand in that file, line by line, whatever the indentation. The commands of a
console block under `<!-- long -->` take their time: they run with --long alone, and no other block needs what they make.

usage: check_lessons.py [--long] SOURCE_DIR BIN_DIR LESSON...
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def pattern(line):
    """What an expected line means: numbers are free, runs of white space too."""
    parts = [re.escape(part) for part in NUMBER.split(line.rstrip())]
    text = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?".join(parts)
    return re.compile(re.sub(r"(\\ )+", r"\\s+", text) + r"\s*$")


def missing_line(expected, printed):
    """The first expected line that does not come, in this order; or None."""
    position = 0
    for line in expected:
        if line.strip() == "...":
            continue
        wanted = pattern(line)
        found = next((i for i in range(position, len(printed)) if wanted.match(printed[i])), None)
        if found is None:
            return line
        position = found + 1
    return None


def blocks(text):
    """(kind, file that it is from, whether it is long, lines) of each fenced block."""
    for match in re.finditer(r"(?:<!-- (?:from (\S+)|(long)) -->\n)?```(\w+)\n(.*?)```", text, re.S):
        yield match.group(3), match.group(1), match.group(2) is not None, match.group(4).splitlines()


def check_code(source, origin, lines):
    file = (source / origin).read_text()
    have = {line.strip() for line in file.splitlines()}
    return [f"not in {origin}: {line}" for line in lines if line.strip() and line.strip() not in have]


def check_console(lines, folder, environment):
    errors = []
    steps = []
    for line in lines:
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    for command, expected in steps:
        print("$", command, flush=True)
        begin = time.monotonic()
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment, timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(done.stdout, f"({time.monotonic() - begin:.1f} s)\n", sep="", flush=True)
        if done.returncode != 0:
            errors.append(f"exit code {done.returncode}: {command}")
        line = missing_line(expected, done.stdout.splitlines())
        if line is not None:
            errors.append(f"not printed: {line!r} by: {command}")
    return len(steps), errors


def main():
    words = [word for word in sys.argv[1:] if word != "--long"]
    runs_long = len(words) < len(sys.argv) - 1
    source, binaries = pathlib.Path(words[0]), words[1]
    environment = dict(os.environ, PATH=binaries + os.pathsep + os.environ["PATH"])
    errors, ran = [], 0
    for name in words[2:]:
        with tempfile.TemporaryDirectory(prefix="lockstep-lesson-") as folder:
            os.symlink((source / "data").resolve(), os.path.join(folder, "data"))  # the reader stands in the project
            for kind, origin, is_long, lines in blocks(pathlib.Path(name).read_text()):
                if kind == "console" and (runs_long or not is_long):
                    count, found = check_console(lines, folder, environment)
                    ran += count
                    errors += [f"{name}: {error}" for error in found]
                elif origin:
                    errors += [f"{name}: {error}" for error in check_code(source, origin, lines)]
    if not ran:
        errors.append("no command was found in the lessons, so nothing was checked")
    sys.exit("\n".join(errors) or 0)


main()
