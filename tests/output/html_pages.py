"""Written pages, read again."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """Tags, all text, the values of `data` elements, and the pages inside frames; every tag must be closed."""

    VOID = frozenset(("meta", "link", "br", "hr", "img", "input"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.values: list[float] = []
        self.frames: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "data":
            self.values.append(float(dict(attrs)["value"]))
        if tag == "iframe":
            self.frames.append(dict(attrs)["srcdoc"])

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
