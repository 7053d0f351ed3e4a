#!/usr/bin/env python3
"""Checks that docs/lessons/pictures holds what its program draws, and that each picture of a page exists.

    check_pictures.py SOURCE
"""
import pathlib
import re
import subprocess
import sys
import tempfile


def main(source):
    lessons = source / "docs" / "lessons"
    faults = []
    with tempfile.TemporaryDirectory() as drawn:
        subprocess.run([sys.executable, lessons / "pictures" / "draw.py", drawn], check=True)
        for picture in sorted(pathlib.Path(drawn).iterdir()):
            kept = lessons / "pictures" / picture.name
            if not kept.exists() or kept.read_bytes() != picture.read_bytes():
                faults.append(f"{kept}: differs from what draw.py draws; run docs/lessons/pictures/draw.py")
    shown = set()
    for page in sorted((source / "docs").rglob("*.md")):
        for target in re.findall(r"!\[[^]]*\]\(([^)]*)\)", page.read_text(encoding="utf-8")):
            shown.add((page.parent / target).resolve())
            if not (page.parent / target).exists():
                faults.append(f"{page}: there is no picture {target}")
    for picture in sorted((lessons / "pictures").glob("*.svg")):
        if picture.resolve() not in shown:
            faults.append(f"{picture}: no page shows it")
    print("\n".join(faults) if faults else f"{len(shown)} pictures checked")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
