"""Runs the lessons: every `$` line of a console block, in a fresh folder with the project's data, and compares what it
prints. A command that ends with a backslash continues in the next line.

Expected lines must come in this order, but lines that differ in their numbers alone, as ranks print them, in any order;
others may come between them, which `...` says to the reader. Their numbers must
be those that the page shows. If the page says "may differ by N %", that is their tolerance: a training on another
processor ends with other digits. Times and speeds are free: numbers before ms, us or "a second", after "load" and the
like, and in a console block under `<!-- measured -->` all but losses and sizes. There the page itself must add up: parts
of a step end before the step does, parts of memory give the total, samples and times give samples a second.

A C++ block under `<!-- from FILE -->` must stand in that file, line by line, whatever the indentation. The commands of a
console block under `<!-- long -->` take their time: they run with --long alone, and no other block needs what they make.

With --record the page gets the lines that were printed in place of those that differ in their numbers alone.

usage: check_lessons.py [--long] [--record] SOURCE_DIR BIN_DIR LESSON...
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
# What stands before and behind a number that says how long something took, or how busy the machine was.
TIMED = (re.compile(r"(?:\bload |_runtime': |_per_second': |threads? = |Threads = |of )$"),
         re.compile(r"^ ?(?:ms\b|us\b|s\b|texts a second|samples/s|cores\b)"))
CHECKED = (re.compile(r"loss[ :]+$"), re.compile(r"^ (?:bytes|[kM]B|[MG]iB)\b"))
SMALLEST = 1e-5  # below it are differences of rounding


def pattern(line):
    """What an expected line means: numbers are free, runs of white space too."""
    parts = [re.escape(part) for part in re.split(NUMBER, line.rstrip())]
    return re.compile(re.sub(r"(\\ )+", r"\\s+", f"({NUMBER})".join(parts)) + r"\s*$")


def is_free(line, match, measured):
    before, behind = line[:match.start()], line[match.end():]
    if measured:
        return not (CHECKED[0].search(before) or CHECKED[1].match(behind))
    of_the_machine = TIMED[0].search(before) and not before.endswith("of ")
    return bool(of_the_machine or TIMED[1].match(behind))


def half_a_digit(number):
    digits = re.search(r"\.(\d+)", number)
    return 0.5 * 10 ** -len(digits.group(1)) if digits else 0


def wrong_number(line, found, tolerance, measured):
    """(expected, printed) of the first number that differs; or None."""
    for match, printed in zip(re.finditer(NUMBER, line.rstrip()), found.groups()):
        expected = match.group()
        if is_free(line, match, measured) or expected == printed:
            continue
        off = abs(float(expected) - float(printed))
        if off > max(tolerance * abs(float(expected)) + half_a_digit(expected), SMALLEST):
            return expected, printed
    return None


def compare(expected, printed, tolerance, measured):
    """Errors, and the lines as they were printed."""
    errors, recorded = [], []
    position, begin, before, used = 0, 0, None, set()  # lines of one kind, one behind the other, begin at `begin`
    for line in expected:
        recorded.append(line)
        if line.strip() == "...":
            continue
        wanted = pattern(line)
        if wanted != before:
            begin, before = position, wanted
        free = [i for i in range(begin, len(printed)) if i not in used and wanted.match(printed[i])]
        alike = [(i, wanted.match(printed[i])) for i in free]
        if not alike:
            errors.append(f"not printed: {line!r}")
            continue
        right = [i for i, found in alike if wrong_number(line, found, tolerance, measured) is None]
        if not right:
            numbers = wrong_number(line, alike[0][1], tolerance, measured)
            errors.append(f"{numbers[1]} was printed, and not {numbers[0]} as the page says: {printed[alike[0][0]]!r}")
        at = right[0] if right else alike[0][0]
        used.add(at)
        position = max(position, at + 1)
        recorded[-1] = printed[at].rstrip()
    return errors, recorded


def in_bytes(number, unit):
    return float(number) * {"MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}[unit]


def errors_in_sums(command, lines):
    """What does not add up in the output that a page shows."""
    errors = []
    step, last_end = None, 0.0
    columns = []
    batch = re.search(r"--batch (\d+)(?: |$)", command)
    for line in lines:
        if found := re.search(r"step \d+: (\d+\.\d+) ms", line):
            step = float(found.group(1))
        if "begin ms" in line:
            last_end = 0.0
        row = re.match(r"\s+\w+ +\w+:\d+ +(\d+\.\d+) +(\d+\.\d+) ", line)
        if row and step is not None:
            last_end = float(row.group(1)) + float(row.group(2))
            if last_end > step * 1.005 + 0.005:
                errors.append(f"ends after {last_end:.3f} ms, in a step of {step} ms: {line.strip()}")
        sizes = re.findall(r"(\d+\.\d+) ([MGTP]iB)", line)
        if re.match(r"(float32|bfloat16|float16) ", line) and len(sizes) > 3:
            parts, total = sizes[:-1], sizes[-1]
            if abs(sum(in_bytes(*part) for part in parts) - in_bytes(*total)) > 0.01 * in_bytes(*total):
                errors.append(f"the parts are not the total: {line.strip()}")
        if re.search(r"\bms +samples/s +times", line):
            columns = ["ms", "samples"]
        elif columns and batch:
            numbers = re.search(r" (\d+\.\d+) +(\d+(?:\.\d+)?) +\d+\.\d+$", line)
            if numbers and abs(float(numbers.group(1)) * float(numbers.group(2)) / 1000 / int(batch.group(1)) - 1) > 0.02:
                errors.append(f"{batch.group(1)} samples in that time are not so many a second: {line.strip()}")
    return errors


def check_code(source, origin, lines):
    file = (source / origin).read_text()
    have = {line.strip() for line in file.splitlines()}
    return [f"not in {origin}: {line}" for line in lines if line.strip() and line.strip() not in have]


def check_console(lines, folder, environment, tolerance, measured):
    errors, steps, recorded = [], [], []
    for line in lines:
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif steps and steps[-1][0].endswith("\\") and not steps[-1][1]:
            steps[-1] = (steps[-1][0] + "\n" + line, [])  # the command continues
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
        found, as_printed = compare(expected, done.stdout.splitlines(), tolerance, measured)
        errors += [f"{error} by: {command}" for error in found]
        recorded += ["$ " + command] + as_printed
    return len(steps), errors, recorded


FENCE = re.compile(r"(?:<!-- (?:from (\S+)|((?:long|measured)(?: measured)?)) -->\n)?```(\w+)\n(.*?)```", re.S)


def check_page(path, source, environment, runs_long, records):
    text = path.read_text()
    says = re.search(r"may\s+differ\s+by\s+(\d+)\s+%", text)
    tolerance = int(says.group(1)) / 100 if says else 0
    ran, errors, replaced = 0, [], text
    with tempfile.TemporaryDirectory(prefix="lockstep-lesson-") as folder:
        os.symlink((source / "data").resolve(), os.path.join(folder, "data"))  # the reader stands in the project
        for match in FENCE.finditer(text):
            origin, words, kind = match.group(1), (match.group(2) or "").split(), match.group(3)
            lines = match.group(4).splitlines()
            if kind == "console":
                command = next((line for line in lines if line.startswith("$ ")), "")
                errors += errors_in_sums(command, lines)
            if kind == "console" and (runs_long or "long" not in words):
                count, found, recorded = check_console(lines, folder, environment, tolerance, "measured" in words)
                ran += count
                errors += found
                new = "\n".join(recorded) + "\n"
                if records:
                    replaced = replaced.replace("```console\n" + match.group(4), "```console\n" + new, 1)
            elif origin:
                errors += check_code(source, origin, lines)
    if records and replaced != text:
        path.write_text(replaced)
    return ran, [f"{path}: {error}" for error in errors]


def main():
    flags = {word for word in sys.argv[1:] if word in ("--long", "--record")}
    words = [word for word in sys.argv[1:] if word not in flags]
    source, binaries = pathlib.Path(words[0]), words[1]
    environment = dict(os.environ, PATH=binaries + os.pathsep + os.environ["PATH"])
    errors, ran = [], 0
    for name in words[2:]:
        count, found = check_page(pathlib.Path(name), source, environment, "--long" in flags, "--record" in flags)
        ran += count
        errors += found
    if not ran:
        errors.append("no command was found in the lessons, so nothing was checked")
    sys.exit("\n".join(errors) or 0)


if __name__ == "__main__":
    main()
