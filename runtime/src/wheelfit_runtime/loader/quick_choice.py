"""Choose by the level of the processor alone, with few imports.

Most packages that are split are split for processors, and `import spam` should cost what a check
written by hand costs. So where all implementations of a group require one feature of this kind of
processor, and there are no overrides, the choice is made here. It is the one that `planning` makes;
where that is not certain, nothing is chosen here.
"""

# Nothing is imported that it could do without.
from __future__ import annotations

import os
import sys

from wheelfit_runtime.loader.declaration_files import (
    GREATEST_PRIORITY,
    LARGEST,
    LONGEST,
    MOST_ITEMS,
    TABLE,
    Unfit,
    content,
    files,
    find_module,
    linked_folders,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Document = dict[str, Any]

OWN_VARIABLES = "WHEELFIT_"
"""How the variables begin that may change what is detected or agreed on."""

_KEYS = frozenset(
    ("schema", "group", "implementation", "module", "distribution", "properties", "priority")
)
_KNOWN_KEYS = frozenset(("schema", "group", "known"))
_ITEM_KEYS = frozenset(("implementation", "install", "properties"))
_LAST = 1_000_000
"""The place of an implementation without requirements."""


class QuickChoice:
    """A compatible implementation, without warnings for the user."""

    __slots__ = ("module", "name", "title")

    def __init__(self, name: str, title: str, module: str) -> None:
        self.name = name
        self.title = title
        self.module = module


def variable_of(group: str) -> str:
    """Return the variable that names an implementation, as ``SPAM_IMPLEMENTATION``."""
    word = "".join(c if c.isalnum() else "_" for c in group)
    return f"{word.upper()}_IMPLEMENTATION"


def choose_here(group: str) -> QuickChoice | None:
    """Return the implementation of a group in this process; None: a full plan is needed."""
    environ = os.environ
    if any(name.startswith(OWN_VARIABLES) for name in environ) or variable_of(group) in environ:
        return None
    if sys.platform != "linux" or sys.maxsize < 2**32 or find_module(TABLE, None) is not None:
        return None
    machine = os.uname().machine
    documents = read_documents(sys.path, linked_folders())
    return None if documents is None else choose(group, documents, machine, _supported)


def _supported(namespace: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the feature that a provider can look at quickly, and its values here."""
    name = f"wheelfit_runtime.platforms.providers.{namespace}.quick_look"
    try:
        look = __import__(name, fromlist=("supported",))
    except ImportError:
        return None
    values = look.supported()
    return (look.FEATURE, values) if values else None


def read_documents(paths: Iterable[object], folders: Iterable[str]) -> list[Document] | None:
    """Return the content of all files, in order of precedence; None: one is unusual, or broken."""
    problems: list[str] = []
    documents: list[Document] = []
    parse = _parser()
    try:
        for where in files(paths, folders, problems):
            data = content(where)
            document = parse(data.decode("utf-8").strip(" \t\n\r"))
            if len(data) > LARGEST or not is_plain(document):
                return None
            documents.append(document)
    except (Unfit, ValueError, RecursionError, StopIteration, TypeError):
        return None
    return None if problems else documents


def choose(
    group: str,
    documents: Iterable[Document],
    machine: str,
    supported: Callable[[str], tuple[str, tuple[str, ...]] | None],
) -> QuickChoice | None:
    """Return the best implementation of a group; None: a full plan is needed.

    :param documents: the result of `read_documents`.
    :param machine: the architecture, which is a namespace, as ``x86_64``.
    :param supported: returns one feature of a namespace and its values here, the best first.
    """
    own: dict[str, Document] = {}
    for document in documents:
        if document["group"] == group and "implementation" in document:
            own.setdefault(document["implementation"], document)
    needs = [_split(text) for document in own.values() for text in document.get("properties", ())]
    feature_and_values = supported(machine) if needs else None
    if any(
        feature_and_values is None or need[:2] != (machine, feature_and_values[0]) for need in needs
    ):
        return None
    values = (
        {}
        if feature_and_values is None
        else {value: place for place, value in enumerate(feature_and_values[1])}
    )
    offers = []
    for name, document in own.items():
        asked = [_split(text)[2] for text in document.get("properties", ())]
        places = [values[value] for value in asked if value in values]
        if places or not asked:
            offers.append((-document.get("priority", 0), min(places, default=_LAST), name))
    if not offers:
        return None
    name = min(offers)[2]
    return QuickChoice(name, own[name].get("distribution") or name, own[name]["module"])


def is_plain(document: Any) -> bool:
    """Return whether a document is a certain and usual one for `declarations`."""
    if not isinstance(document, dict) or type(document.get("schema")) is not int:
        return False
    if document["schema"] not in (0, 1) or not _is_name(document.get("group")):
        return False
    if "implementation" not in document:
        known = document.get("known", [])
        return (
            document.keys() <= _KNOWN_KEYS and _is_list(known) and all(map(_is_plain_item, known))
        )
    priority = document.get("priority", 0)
    return (
        document.keys() <= _KEYS
        and _is_name(document["implementation"])
        and _is_module(document.get("module"))
        and _is_line(document.get("distribution", "-"))
        and type(priority) is int
        and abs(priority) <= GREATEST_PRIORITY
        and _are_properties(document.get("properties", []))
    )


def _is_plain_item(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and item.keys() <= _ITEM_KEYS
        and _is_name(item.get("implementation"))
        and _is_line(item.get("install"))
        and _are_properties(item.get("properties", []))
    )


def _is_name(text: Any) -> bool:
    return (
        isinstance(text, str)
        and text.isascii()
        and 0 < len(text) <= 100
        and text[0].isalnum()
        and text[-1].isalnum()
        and text.replace("-", "").replace("_", "").replace(".", "").isalnum()
    )


def _is_module(text: Any) -> bool:
    return (
        isinstance(text, str)
        and text.isascii()
        and text.count(".") <= 20
        and all(part.isidentifier() for part in text.split("."))
    )


def _is_line(text: Any) -> bool:
    return isinstance(text, str) and text.isprintable() and 0 < len(text) <= LONGEST


def _is_list(items: Any) -> bool:
    return isinstance(items, list) and len(items) <= MOST_ITEMS


def _are_properties(items: Any) -> bool:
    return _is_list(items) and all(isinstance(item, str) and _is_property(item) for item in items)


def _is_property(text: str) -> bool:
    parts = text.split(" :: ")
    return len(parts) == 3 and all(map(_is_word, parts[:2])) and _is_word(parts[2].replace(".", ""))


def _is_word(text: str) -> bool:
    return (
        text.isascii()
        and len(text) <= 100
        and text == text.lower()
        and text.replace("_", "").isalnum()
    )


def _split(text: str) -> tuple[str, str, str]:
    namespace, feature, value = text.split(" :: ")
    return namespace, feature, value


def _parser() -> Callable[[str], Any]:
    """Return a JSON parser: `json` itself only where there is no scanner in C.

    `json` imports regular expressions, which cost more than all other imports here.
    """
    try:
        from _json import make_scanner
    except ImportError:  # another Python
        from json import loads

        return loads
    scan: Callable[[str, int], tuple[Any, int]] = make_scanner(_Settings)  # type: ignore[arg-type]

    def parse(text: str) -> Any:
        document, end = scan(text, 0)
        if end != len(text):
            raise ValueError
        return document

    return parse


class _Settings:
    """The attributes that `json.JSONDecoder` gives its scanner."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = None
    memo: Mapping[str, str] = {}
