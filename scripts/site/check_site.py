"""Checks that each link of a built site leads to a file of it, and to a place that the file has; links to other hosts
are left alone. A page must not fetch anything from elsewhere: a reader may have no network.

usage: check_site.py FOLDER
"""
import os
import pathlib
import sys
import urllib.parse
from html.parser import HTMLParser

# Doxygen names the place of a list that it leaves out if all classes in it are private.
LEFT_OUT = {"nested-classes"}
LOADS = {"script", "img", "link", "iframe", "source"}  # what these name is fetched with the page


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.places = [], {"", "top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.places.update(values[name] for name in ("id", "name") if values.get(name))
        for name in ("href", "src", "srcset"):
            if values.get(name):
                # <link rel="canonical"> and the like name an address; a stylesheet is fetched.
                fetched = tag in LOADS and (tag != "link" or values.get("rel") in ("stylesheet", "icon"))
                self.links.append((self.getpos()[0], values[name], fetched))


def main(folder):
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html")) if path.name != "404.html"}
    faults, count = [], 0
    for path, page in pages.items():
        for line, link, fetched in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                if fetched and parts.scheme not in ("data", "javascript"):
                    faults.append(f"{path}:{line}: fetches from elsewhere: {link}")
                continue
            count += 1
            place = urllib.parse.unquote(parts.path)
            target = pathlib.Path(os.path.normpath(path.parent / place)) if place else path
            if target.is_dir():
                target = target / "index.html"
            if not target.exists():
                faults.append(f"{path}:{line}: there is no {link}")
            elif target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].places | LEFT_OUT:
                faults.append(f"{path}:{line}: the page has no such place: {link}")
    if not pages:
        faults.append(f"{folder}: there is no page")
    print("\n".join(faults) if faults else f"{len(pages)} pages, {count} links inside the site, all lead somewhere")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
