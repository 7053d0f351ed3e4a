"""What mkdocs does besides: pages of files that lie outside docs/ and are linked, formulas as MathML, Doxygen's pages.

A link of a page to `../examples/ddp_mnist.cpp` works where the project's files are. The site has a copy of each such
file instead, as a page of its own: Markdown as it is, source with colours, a folder as a list of its files.
"""
import html
import os
import pathlib
import posixpath
import re

from latex2mathml import converter
from mkdocs.structure.files import File, InclusionLevel
from mkdocs.structure.nav import Link

PROJECT = pathlib.Path(__file__).resolve().parents[2]
COPIES = "repository"  # the copies' folder in the site
LANGUAGES = {".cpp": "cpp", ".h": "cpp", ".cu": "cpp", ".py": "python", ".cmake": "cmake", ".json": "json",
             ".yaml": "yaml", ".yml": "yaml", ".sh": "bash", "": "bash"}
CODE = re.compile(r"^ *(?P<fence>`{3,}).*?^ *(?P=fence)`*\s*?$"  # fences, and spans in a line
                  r"|(?<!`)(?P<ticks>`+)(?!`)(?:(?!\n\s*\n).)+?(?<!`)(?P=ticks)(?!`)", re.M | re.S)
LINK = re.compile(r"""(\]\(|<(?:img|source)\b[^>]*?\b(?:src|srcset)=")([^()\s"]+)([)"])""")
PICTURES = {".svg", ".png", ".gif", ".jpg"}

# What a search should find first, and last.
BOOST = {"how-do-i.md": 4, "troubleshooting.md": 2, "lessons": 1.5, COPIES: 0.5}

copies = {}  # path in the project -> name of its page in the site


def copy_of(path):
    """The copy's name among the site's sources, of a path in the project."""
    if path.suffix == ".md" or path.suffix in PICTURES:
        name = path
    elif (PROJECT / path).is_dir():
        name = path / "index.md"
    else:
        name = path.with_name(path.name + ".md")
    # README.md would be the folder's index, beside a list of its files.
    return posixpath.join(COPIES, str(name.with_name("readme.md") if name.name == "README.md" else name))


def targets(text, folder):
    """(match, path in the project, anchor) of each relative link outside code. `folder`: the page's, in the project."""
    spans = [match.span() for match in CODE.finditer(text)]
    for match in LINK.finditer(text):
        target, _, anchor = match.group(2).partition("#")
        inside = any(begin <= match.start() < end for begin, end in spans)
        if inside or not target or re.match(r"[a-z]+:", target) or target.startswith("/"):
            continue
        path = pathlib.Path(os.path.normpath(folder / target))
        if path.parts and path.parts[0] != "..":
            yield match, path, anchor


def content_of(path):
    """The copy's Markdown."""
    full = PROJECT / path
    if full.is_dir():
        names = sorted(entry.name for entry in full.iterdir() if entry.is_file() and not entry.name.startswith("."))
        return f"# `{path}/`\n\n" + "".join(f"- [`{name}`]({name})\n" for name in names)
    text = full.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    fence = "`" * (1 + max([2, *(len(run) for run in re.findall("`+", text))]))
    return f"# `{path}`\n\n{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n{fence}\n"


def on_files(files, config):
    pages = [(file.content_string, pathlib.PurePosixPath("docs", file.src_uri).parent) for file in files
             if file.is_documentation_page()]
    copies.clear()
    while pages:
        text, folder = pages.pop()
        for _, path, _ in targets(text, folder):
            if path.parts[0] == "docs" or path in copies or not (PROJECT / path).exists():
                continue  # what does not exist stays as it is, and mkdocs warns
            copies[path] = copy_of(path)
            if path.suffix in PICTURES:
                files.append(File.generated(config, copies[path], abs_src_path=str(PROJECT / path)))
                continue
            content = content_of(path)
            files.append(File.generated(config, copies[path], content=content, inclusion=InclusionLevel.NOT_IN_NAV))
            if path.suffix == ".md" or (PROJECT / path).is_dir():
                pages.append((content, path if (PROJECT / path).is_dir() else path.parent))
    style = (pathlib.Path(__file__).parent / "site.css").read_text(encoding="utf-8")
    files.append(File.generated(config, "assets/site.css", content=style))
    return files


def on_page_markdown(markdown, page, config, files):
    origin = {name: path for path, name in copies.items()}.get(page.file.src_uri)
    path = pathlib.PurePosixPath(origin or f"docs/{page.file.src_uri}")
    folder = path if origin and (PROJECT / origin).is_dir() else path.parent
    weight = BOOST.get(page.file.src_uri.split("/")[0])
    if weight:
        page.meta["search"] = {"boost": weight}
    replaced, end = [], 0
    for match, target, anchor in targets(markdown, folder):
        if target.parts[0] == "docs":
            name = posixpath.relpath(str(target), "docs")
        elif target in copies:
            name = copies[target]
        else:
            continue
        # mkdocs makes an address of a Markdown link, and leaves HTML as it is.
        here = posixpath.dirname(page.file.dest_uri if match.group(1).startswith("<") else page.file.src_uri)
        link = posixpath.relpath(name, here or ".") + ("#" + anchor if anchor else "")
        replaced += [markdown[end:match.start()], match.group(1), link, match.group(3)]
        end = match.end()
    return "".join(replaced) + markdown[end:]


def on_page_content(content, page, config, files):
    def formula(match):
        opening, tex = match.group(2), html.unescape(match.group(3))
        return converter.convert(tex, display="inline" if opening == "\\(" else "block")

    return re.sub(r'<(span|div) class="arithmatex">\s*(\\\(|\\\[)(.*?)\\[)\]]\s*</\1>', formula, content, flags=re.S)


def on_nav(nav, config, files):
    nav.items.append(Link("C++ reference", "api/index.html"))  # Doxygen's pages, which scripts/docs puts there
    return nav
