"""The last paragraph of each lesson: links to its neighbours and to the list. check_lessons_rules.py checks that it is
there; after a new lesson or another title, this writes it:

    python3 tests/docs/lesson_links.py
"""
import pathlib
import re
import textwrap

LESSONS = pathlib.Path(__file__).parents[2] / "docs/lessons"
LIST = "[All lessons](../README.md#lessons)."


def pages():
    """In their order."""
    return sorted(LESSONS.glob("*.md"), key=lambda path: int(path.name.split("-")[0]))


def link(page):
    number, title = re.match(r"# Lesson (\d+): (.*)", page.read_text(encoding="utf-8")).groups()
    return f"[lesson {number}, {title}]({page.name})"


def paragraph(all_pages, place):
    parts = []
    if place > 0:
        parts.append(f"Previous: {link(all_pages[place - 1])}.")
    if place + 1 < len(all_pages):
        parts.append(f"Next: {link(all_pages[place + 1])}.")
    return textwrap.fill(" ".join([*parts, LIST]), 120, break_on_hyphens=False, break_long_words=False)


def without():
    """The lessons that do not end with their links."""
    all_pages = pages()
    return [page for place, page in enumerate(all_pages)
            if not page.read_text(encoding="utf-8").endswith("\n---\n\n" + paragraph(all_pages, place) + "\n")]


def without_answers():
    """The lessons that do not answer each of their exercises."""
    wrong = []
    for page in pages():
        exercises = re.search(r"^## What to try\n(.*?)<details markdown=\"1\">\n<summary>Answers</summary>\n(.*?)</details>",
                              page.read_text(encoding="utf-8"), re.M | re.S)
        counts = [re.findall(r"^(\d+)\. ", part, re.M) for part in exercises.groups()] if exercises else [[], ["0"]]
        if counts[0] != counts[1]:
            wrong.append(page)
    return wrong


def main():
    all_pages = pages()
    for place, page in enumerate(all_pages):
        text = page.read_text(encoding="utf-8")
        if text.rstrip().endswith(LIST):
            text = text[:text.rindex("\n---\n")]
        page.write_text(text.rstrip() + "\n\n---\n\n" + paragraph(all_pages, place) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
