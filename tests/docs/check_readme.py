"""Checks that each figure of README's first table stands in a table of the page that its row links.

usage: check_readme.py SOURCE_DIR
"""
import pathlib
import re
import sys


def main(source):
    readme = (source / "README.md").read_text(encoding="utf-8")
    rows = re.search(r"\n\| on two CPU cores \|.*?\n\|---.*?\n(.*?)\n\n", readme, re.S).group(1).split("\n")
    errors, count = [], 0
    for row in rows:
        what, ours, peer = re.split(r" \| ", row.strip("| "))
        page = re.search(r"\]\((docs/performance/[^)#]*)", what).group(1)
        measured = (source / page).read_text(encoding="utf-8")
        for number in re.findall(r"(\d+(?:\.\d+)?) (?:ms|s)\b", f"{ours} {peer}"):
            count += 1
            if not re.search(rf"\| {re.escape(number)}[ ()|]", measured):
                errors.append(f"README's {number} stands in no table of {page}: {row}")
    if count < 2 * len(rows):
        errors.append(f"README's {len(rows)} rows have {count} figures: one of ours and one of a peer in each")
    print("\n".join(errors) if errors else f"{count} figures stand in the pages that README links")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
