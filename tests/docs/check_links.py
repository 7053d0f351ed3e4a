"""Checks that each relative link of a Markdown page leads to a file of the project, and to a heading that it has; that
each page of docs/ is in the site's navigation (scripts/site/mkdocs.yml) and has a link in docs/README.md; and that both have
the lessons in one order.

usage: check_links.py SOURCE_DIR
"""
import pathlib
import re
import sys

FENCE = re.compile(r"^ *(?P<fence>`{3,}).*?^ *(?P=fence)`*\s*?$", re.M | re.S)
SPAN = re.compile(r"(?<!`)(?P<ticks>`+)(?!`)(?:(?!\n\s*\n).)+?(?<!`)(?P=ticks)(?!`)", re.S)
LINK = re.compile(r"""(?:\]\(\s*|<(?:img|source|a)\b[^>]*?\b(?:src|srcset|href)=")([^()\s"]+)\s*[)"]""")
SKIPPED = {"build", "_deps", ".git"}


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def slug(heading):
    """A heading's anchor, as a forge and the site make it."""
    words = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", words.strip().lower()))


def anchors(text):
    found, count = set(), {}
    for line in FENCE.sub(blank, text).split("\n"):
        heading = re.match(r"#{1,6} +(.*?)\s*#*$", line)
        if heading:
            name = slug(heading.group(1))
            found.add(name if name not in count else f"{name}-{count[name]}")
            count[name] = count.get(name, 0) + 1
        found.update(re.findall(r'<a (?:id|name)="([^"]+)"', line))
    return found


def links(text):
    """(line number, link)."""
    plain = SPAN.sub(blank, FENCE.sub(blank, text))
    for match in LINK.finditer(plain):
        yield plain.count("\n", 0, match.start()) + 1, match.group(1)


def wrong_links(project, pages):
    for page, text in pages.items():
        for line, link in links(text):
            where = f"{page.relative_to(project)}:{line}"
            target, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            path = (page.parent / target).resolve() if target else page
            if not path.exists() or project not in path.parents:
                yield f"{where}: the project has no {link}"
            elif anchor and path.suffix == ".md" and anchor not in anchors(path.read_text(encoding="utf-8")):
                yield f"{where}: the page has no such heading: {link}"


def wrong_navigation(project, pages):
    docs = project / "docs"
    config = (project / "scripts/site/mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- (?:.*: )?(?!repository/)(\S+\.md)\b", config[config.index("\nnav:"):], re.M)
    there = {str(page.relative_to(docs)) for page in pages if docs in page.parents}
    yield from (f"mkdocs.yml: nav has no {name}" for name in sorted(there - set(listed)))
    yield from (f"mkdocs.yml: nav has {name}, and docs/ has not" for name in listed if name not in there)
    yield from (f"mkdocs.yml: nav has {name} twice" for name in sorted({x for x in listed if listed.count(x) > 1}))
    front = docs / "README.md"
    shown = [link.partition("#")[0] for _, link in links(pages[front]) if not link.startswith(("..", "http"))]
    yield from (f"docs/README.md: has no link to {name}" for name in sorted(there - set(shown) - {"README.md"}))
    lessons = [[name for name in names if name.startswith("lessons/")] for names in (listed, shown)]
    if lessons[0] != lessons[1]:
        yield "docs/README.md: its lessons have another order than those of nav"


def check_rules():
    """What the patterns must find."""
    page = "# A `b` & [c](d.md)\n# A\n# A\n```\n# no\n[x](y)\n```\n`[x](y)` [z `q`](w.md#v)\n<img alt=\"\" src=\"p.svg\">\n"
    assert anchors(page) == {"a-b--c", "a", "a-1"}, anchors(page)
    assert list(links(page)) == [(1, "d.md"), (8, "w.md#v"), (9, "p.svg")], list(links(page))


def main(project):
    check_rules()
    found = [path for path in sorted(project.rglob("*.md"))
             if not SKIPPED & set(path.relative_to(project).parts[:-1])]
    pages = {path: path.read_text(encoding="utf-8") for path in found}
    faults = [*wrong_links(project, pages), *wrong_navigation(project, pages)]
    count = sum(1 for text in pages.values() for _ in links(text))
    print("\n".join(faults) if faults else f"{len(pages)} pages, {count} links, all lead somewhere")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
