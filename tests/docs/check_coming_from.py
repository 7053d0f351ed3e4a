"""Every name of Lockstep's in the tables of docs/coming-from.md exists.

The names are the `spans` of the second column: `lockstep NAME` is a subcommand, `--flag` a text in a program's sources,
ALL_CAPITALS a variable that docs/reference/variables.md or run.md has, and anything else an engine, or a
word of a public header outside of its comments.

usage: check_coming_from.py SOURCE_DIR
"""
import pathlib
import re
import sys

FEWEST = 100  # names; fewer mean that the page is read wrongly


def text_of(source, *patterns):
    return "\n".join(path.read_text() for pattern in patterns for path in sorted(source.glob(pattern)))


def main():
    source = pathlib.Path(sys.argv[1])
    page = source / "docs/coming-from.md"
    words = set(re.findall(r"\w+", re.sub(r"//[^\n]*", "", text_of(source, "include/**/*.h"))))
    engines = set(re.findall(r"^\| `(\w+)` \|", (source / "docs/reference/engines.md").read_text(), re.M))
    variables = set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", text_of(source, "docs/reference/variables.md", "docs/reference/run.md")))
    subcommands = set(re.findall(r"^\w+\((\w+),", (source / "tools/frame/subcommands.inc").read_text(), re.M))
    sources = text_of(source, "src/**/*.cpp", "tools/**/*.cpp")
    flags = set(re.findall(r'"(?:-\w,)?(?:--)?([a-z]+(?:[-_][a-z]+)*)[",=]', sources))
    errors, count = [], 0
    for number, line in enumerate(page.read_text().splitlines(), 1):
        cells = line.split(" | ")
        if not line.startswith("| ") or len(cells) < 3 or cells[1] == "here":
            continue
        for name in re.findall(r"`([^`]+)`", cells[1]):
            count += 1
            if name.startswith("lockstep "):
                known = name.split()[1].replace("-", "_") in subcommands
            elif name.startswith("--"):
                known = name[2:] in flags or name[2:].replace("-", "_") in flags
            elif re.fullmatch(r"[A-Z][A-Z0-9_]+", name):
                known = name in variables
            else:
                known = name in engines or all(part in words for part in re.findall(r"\w+", name))
            if not known:
                errors.append(f"{page.relative_to(source)}:{number}: `{name}` is not there")
    if count < FEWEST:
        errors.append(f"{page.relative_to(source)} has {count} names: fewer than {FEWEST}, or its tables look otherwise")
    sys.exit("\n".join(errors) or print(f"{count} names are there"))


main()
