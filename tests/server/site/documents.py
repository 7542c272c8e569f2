"""HTML pages, and faults in their markup."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import pairwise

_EMPTY = {"br", "hr", "img", "input", "link", "meta"}
_APART = {"td", "th", "tr", "li", "p", "dt", "dd", "option"}
_CONTROLS = {"input", "select", "textarea"}


class Document(HTMLParser):
    """A parsed page and its faults."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.text = ""
        """All that can be read, with single blanks."""
        self.links: list[str] = []
        self.headings: list[tuple[int, str]] = []
        self.tags: list[str] = []
        self._open: list[str] = []
        self._ids: list[str] = []
        self._references: list[str] = []
        self._labelled: list[str] = []
        self._controls: list[str | None] = []
        self._tables: list[bool] = []
        text = content.decode("utf-8")
        self.feed(text)
        self.close()
        self.text = " ".join(self.text.split())
        if not text.startswith("<!DOCTYPE html>"):
            self.faults.append("no doctype")
        self._judge()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Check an element."""
        values = dict(attrs)
        self.tags.append(tag)
        if tag in _APART:
            self.text += " "
        if len(values) != len(attrs):
            self.faults.append(f"{tag}: an attribute twice")
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.faults.append(f"{tag}: {name} inline")
            if name in {"href", "src", "action"}:
                self._link(tag, value or "")
            if name in {"aria-labelledby", "aria-describedby", "list"}:
                self._references += (value or "").split()
            if name == "id":
                self._ids.append(value or "")
        if tag in {"script", "style", "iframe", "object", "embed", "base", "svg"}:
            self.faults.append(f"there is a {tag}")
        if tag == "html" and not values.get("lang"):
            self.faults.append("no language")
        if tag == "label":
            self._labelled.append(values.get("for") or "")
        if tag in _CONTROLS:
            self._controls.append(values.get("id"))
        if tag == "table":
            self._tables.append(False)
        if tag == "caption" and self._tables:
            self._tables[-1] = True
        if tag == "th" and values.get("scope") not in {"col", "row"}:
            self.faults.append("a heading of a table without scope")
        if tag in {"h1", "h2", "h3", "h4"}:
            self.headings.append((int(tag[1]), ""))
        if tag == "img" and "alt" not in values:
            self.faults.append("an image without words")
        if tag not in _EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that an end tag matches."""
        if not self._open or self._open[-1] != tag:
            self.faults.append(f"{tag} ends where {self._open[-1:]} is open")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        """Collect text."""
        self.text += data
        if self.headings and self._open and self._open[-1] not in {"p", "td"}:
            level, words = self.headings[-1]
            if f"h{level}" in self._open:
                self.headings[-1] = (level, words + data)

    def _link(self, tag: str, url: str) -> None:
        self.links.append(url)
        scheme = url.partition("/")[0].partition("?")[0].partition("#")[0]
        if ":" in scheme and scheme not in {"http:", "https:"}:
            self.faults.append(f"{tag} leads to {url}")
        if url.startswith(("/", "\\")):
            self.faults.append(f"{tag} leads to the root of the server: {url}")

    def _judge(self) -> None:
        if self._open:
            self.faults.append(f"not ended: {self._open}")
        if len(set(self._ids)) != len(self._ids):
            self.faults.append(f"ids are not unique: {sorted(self._ids)}")
        missing = {*self._references, *self._labelled} - set(self._ids)
        if missing:
            self.faults.append(f"there is no {missing}")
        for control in self._controls:
            if control is None or control not in self._labelled:
                self.faults.append(f"no label for {control}")
        if not all(self._tables):
            self.faults.append("a table without caption")
        levels = [level for level, _ in self.headings]
        if levels[:1] != [1] or levels.count(1) != 1:
            self.faults.append(f"headings begin with {levels[:3]}")
        if any(after > before + 1 for before, after in pairwise(levels)):
            self.faults.append(f"headings leave a level out: {levels}")
        for needed in ("title", "main", "header", "footer", "nav"):
            if self.tags.count(needed) < 1:
                self.faults.append(f"no {needed}")
        if self.tags.count("main") != 1:
            self.faults.append("not one main")
