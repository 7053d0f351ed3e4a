"""Compiles the C++ blocks of docs/reference and of PAGES, all in one translation unit, and reports errors by page and
line.

Each block is compiled as a reader would use it: with lockstep/lockstep.h, torch/torch.h and the block's own includes.
- A block that begins with `struct`, `class`, `template` or `namespace`, and one with a `main`, stands in the page's
  namespace; any other is the body of a function.
- `...` in place of a statement stands for code that the page leaves out.
- What a page takes for granted, such as a model or a loader, is declared in reference/PAGE.inc beside this script.
- A block of ```diff is compiled twice: as it was, and as it became.
- A block under `<!-- from FILE -->` is part of a program that is built; `ctest -R lessons` compares them.

usage: check_reference.py COMPILE_COMMANDS TARGET SOURCE_DIR
    compiler and flags are those of a file of TARGET in COMPILE_COMMANDS
"""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "compile_errors"))
from compile_command import command_of  # noqa: E402

PAGES = ["docs/how-do-i.md", "README.md"]
GIVEN = pathlib.Path(__file__).parent / "reference"
BLOCK = re.compile(r"(<!-- from \S+ -->\n)?```(cpp|diff)\n(.*?)```", re.S)
DECLARES = re.compile(r"\s*(?://[^\n]*\n\s*)*(?:struct|class|template|namespace)\b(?!\s+\w+\s*=)")
HEADERS = ["torch/torch.h", "lockstep/lockstep.h"]


def blocks_of(page):
    """(line, code) of each block to compile."""
    text = page.read_text()
    for match in BLOCK.finditer(text):
        line, code = text[:match.start(3)].count("\n") + 1, match.group(3)
        if match.group(2) == "diff":
            for without, name in (("+", "before"), ("-", "after")):
                kept = ["" if each.startswith(without) else each[1:] for each in code.split("\n")]
                yield line - 1, "\n".join([f"namespace {name} {{", *kept, "}"])
        elif match.group(1) is None:
            yield line, code


def without_ellipsis(code):
    return re.sub(r"(?m)^(\s*)\.\.\.\s*$|(?<=[ ;{)])\.\.\.\s*$", ";", code)


def scope_of(page, line, code, headers):
    """The block as declarations or as a function; its includes are added to `headers`, and leave empty lines."""
    headers += [name for name in re.findall(r"(?m)^#include [<\"](.*?)[>\"]", code) if name not in headers]
    code = without_ellipsis(re.sub(r"(?m)^#include .*$", "", code))
    at_namespace_scope = DECLARES.match(code) or re.search(r"(?m)^int main\(", code)
    begin, end = ("", "") if at_namespace_scope else (f"void line_{line}() {{", "}")
    return f'{begin}\n#line {line} "{page}"\n{code}\n{end}\n'


def unit_of(source, pages):
    """The whole translation unit, and the number of blocks in it."""
    headers, scopes, count = list(HEADERS), [], 0
    for page in pages:
        blocks = list(blocks_of(page))
        if not blocks:
            continue
        count += len(blocks)
        name = page.stem.replace("-", "_")
        scopes.append(f"namespace page_{name} {{\n")
        given = GIVEN / f"{page.stem}.inc"
        if given.exists():
            scopes.append(f'#line 1 "{given.relative_to(source)}"\n{given.read_text()}')
        scopes += [scope_of(page.relative_to(source), line, code, headers) for line, code in blocks]
        scopes.append("}\n")
    return "".join(f"#include <{header}>\n" for header in headers) + "".join(scopes), count


def errors_by_page(stderr):
    """The errors, each with the page's line that led to it: one in a template is reported in the template's file."""
    place = ""
    for line in stderr.splitlines():
        of_page = re.match(r"((?:README|docs/|tests/)[^:]*:\d+):", line)
        place = of_page.group(1) if of_page else place
        if "error: " in line:
            yield line if of_page else f"{place}: {line}"


def main():
    command, source = command_of(sys.argv[1], sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
    pages = sorted((source / "docs/reference").glob("*.md")) + [source / page for page in PAGES]
    unit, count = unit_of(source, pages)
    if not count:
        sys.exit("no C++ block was found, so nothing was checked")
    unknown = sorted({each.stem for each in GIVEN.glob("*.inc")} - {page.stem for page in pages})
    if unknown:
        sys.exit(f"there is no page for {', '.join(unknown)}")
    with tempfile.TemporaryDirectory(prefix="lockstep-reference-") as folder:
        file = pathlib.Path(folder) / "reference.cpp"
        file.write_text(unit)
        done = subprocess.run([*command, "-fsyntax-only", "-w", "-fmax-errors=0" if "clang" not in command[0] else
                               "-ferror-limit=0", str(file)], timeout=600, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit("\n".join(errors_by_page(done.stderr)) or done.stderr)
    print(f"{count} blocks of {len(pages)} pages compile")


main()
