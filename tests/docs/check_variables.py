"""Every LOCKSTEP_ variable that the sources read must be described for users, and the other way round.

usage: check_variables.py SOURCE_DIR
"""
import pathlib
import re
import sys

QUOTED = re.compile(r'"(LOCKSTEP_[A-Z_]+)"')
DESCRIBED = re.compile(r"`(LOCKSTEP_[A-Z_]+)[`=]")

source = pathlib.Path(sys.argv[1])
page = source / "docs/reference/variables.md"
read = set()
for folder in ("src", "tools", "examples"):
    for file in sorted((source / folder).rglob("*")):
        if file.suffix in (".cpp", ".h"):
            read.update(QUOTED.findall(file.read_text()))
described = set(DESCRIBED.findall(page.read_text()))
errors = [f"read, but not in {page.name}: {name}" for name in sorted(read - described)]
errors += [f"in {page.name}, but never read: {name}" for name in sorted(described - read)]
print("\n".join(errors) or f"{len(read)} variables, all described")
sys.exit(bool(errors))
