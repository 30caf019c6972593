#!/usr/bin/env python3
"""Whether a book that mdBook has built hangs together: check.py DOCS BOOK

Every chapter of the table of contents has its page; every link and every image inside of the book
leads to a file that is there, and to an anchor in it; nothing that a page needs is loaded from
elsewhere. Prints what is wrong, one a line, and exits with 1. """

import pathlib
import re
import sys
import urllib.parse
from html.parser import HTMLParser


class Page(HTMLParser):
    """The anchors of a page, what it points at, and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loads, self.images = set(), [], [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        self.anchors.update(a[key] for key in ("id", "name") if a.get(key))
        if tag == "a" and a.get("href"):
            self.links.append(a["href"])
        if a.get("src"):
            self.loads.append(a["src"])
        if tag == "link" and a.get("href"):
            self.loads.append(a["href"])
        if tag == "img":
            self.images.add(a.get("src"))


def images(path):
    """Yields the images of a chapter and of its includes. The first definition of a link holds."""
    text = path.read_text()
    for name in re.findall(r"\{\{#include (\S+\.md)\}\}", text):
        text += (path.parent / name).read_text()
    defined = {}
    for label, target in re.findall(r"^\[([^\]]+)\]: (\S+)$", text, re.M):
        defined.setdefault(label, target)
    yield from re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    yield from (defined[label] for label in re.findall(r"!\[[^\]]*\]\[([^\]]+)\]", text))


def wrong(docs, book):
    pages = {path.relative_to(book): Page(path) for path in sorted(book.rglob("*.html"))}
    chapters = re.findall(r"\]\(([^)]+)\.md\)", (docs / "SUMMARY.md").read_text())
    if not chapters:
        yield "SUMMARY.md: no chapters"
    for chapter in chapters:
        if pathlib.Path(chapter + ".html") not in pages:
            yield f"{chapter}.md: it has no page"
    drawn = {(path.stem, src) for path in docs.glob("*.md") for src in images(path)}
    shown = {
        (name.stem, src)
        for name, page in pages.items()
        if name.stem in chapters
        for src in page.images
    }
    if not drawn or drawn != shown:
        yield f"images in the documents and not in the pages, or the other way: {drawn ^ shown}"
    for name, page in pages.items():
        if name.name in ("404.html", "print.html", "toc.html"):
            # Of mdBook itself: the pages again, from elsewhere.
            continue
        for target, loaded in [(t, False) for t in page.links] + [(t, True) for t in page.loads]:
            url = urllib.parse.urlsplit(target)
            if url.scheme == "data":
                continue
            if url.scheme or url.netloc:
                if loaded:
                    yield f"{name}: {target} is loaded from elsewhere"
                continue
            path = (
                (book / name).parent / urllib.parse.unquote(url.path) if url.path else book / name
            )
            path = path.resolve()
            if not path.is_relative_to(book) or not path.is_file():
                yield f"{name}: {target} is not there"
            elif url.fragment and path.suffix == ".html":
                if urllib.parse.unquote(url.fragment) not in pages[path.relative_to(book)].anchors:
                    yield f"{name}: {target} has no such anchor"
    print(
        f"book: {len(chapters)} chapters, {len(shown)} images, "
        f"{sum(len(p.links) for p in pages.values())} links"
    )


if __name__ == "__main__":
    found = list(wrong(*(pathlib.Path(path).resolve() for path in sys.argv[1:3])))
    for line in found:
        print(f"book: {line}", file=sys.stderr)
    sys.exit(1 if found else 0)
