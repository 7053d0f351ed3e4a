"""Each message that docs/troubleshooting.md quotes still stands in the sources.

A message is a `span` in the first cell of a row. `...` in it stands for what differs from case to case; the pieces between
must be in one string literal each, of the programs or of the build. Literals that follow each other are one, and what
fmt puts in, `{}`, ends a piece.

usage: check_troubleshooting.py SOURCE_DIR
"""
import pathlib
import re
import sys

LITERAL = r'"((?:\\.|[^"\\\n])*)"'
FEWEST = 30  # messages; fewer mean that the page is read wrongly
FOREIGN = {": No such file or directory", ": Address already in use", ": Cannot assign requested address",
           "Could not resolve host"}  # of the C library and of curl


def literals(source):
    """All texts of the programs and of the build, a line each."""
    texts = []
    for folder, endings in (("src", (".cpp", ".h", ".inc")), ("include", (".h",)), ("tools", (".cpp", ".h")), ("cmake", (".cmake",))):
        for path in sorted((source / folder).rglob("*")):
            if path.suffix in endings:
                joined = re.sub(r'(?<!\\)"\s*"', "", path.read_text())
                texts += [re.sub(r"\\(.)", r"\1", text) for text in re.findall(LITERAL, joined)]
    return "\n".join(texts)


def messages(page):
    """(line number, message) of the page's rows."""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        cell = re.match(r"\| (`.*?) \|", line)
        if cell:
            for message in re.findall(r"`([^`]+)`", cell.group(1)):
                yield number, message


def main():
    source = pathlib.Path(sys.argv[1])
    page = source / "docs/troubleshooting.md"
    have, errors, count = literals(source), [], 0
    for number, message in messages(page):
        count += 1
        for piece in re.split(r"\s*\.\.\.\s*", message):
            if piece and piece not in FOREIGN and piece not in have:
                errors.append(f"{page.relative_to(source)}:{number}: no message has \"{piece}\"")
    if count < FEWEST:
        errors.append(f"{page.relative_to(source)} quotes {count} messages: fewer than {FEWEST}, or its rows look otherwise")
    sys.exit("\n".join(errors) or print(f"{count} messages stand in the sources"))


main()
