"""A quick choice among implementations for processors, with few imports.

Most packages with several implementations have them for processors, and their import should take no
longer than with a check written by hand. If all implementations of a group require at most one
feature of this kind of processor, and there are no overrides, the choice is made here, with the
same result as by `planning`. In all other cases nothing is chosen here.
"""

# Imported when packages with several implementations are imported, so it imports few modules.
from __future__ import annotations

import os
import sys

from wheelfit_runtime.loader.declaration_checks import checked, split_property
from wheelfit_runtime.loader.declaration_files import (
    MAX_FILE_SIZE,
    TABLE,
    InvalidDeclaration,
    declaration_paths,
    find_module,
    linked_folders,
    read_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Document = dict[str, Any]

VARIABLE_PREFIX = "WHEELFIT_"
"""The prefix of environment variables that may change the choice."""

_LAST = 1_000_000
"""The rank of an implementation without requirements."""


class QuickChoice:
    """The chosen implementation."""

    def __init__(self, name: str, title: str, module: str) -> None:
        self.name = name
        self.title = title
        self.module = module


def variable_of(group: str) -> str:
    """Return the environment variable that overrides the choice, as ``SPAM_IMPLEMENTATION``."""
    prefix = "".join(letter if letter.isalnum() else "_" for letter in group)
    return f"{prefix.upper()}_IMPLEMENTATION"


def choose_here(group: str) -> QuickChoice | None:
    """Return the best implementation of a group in this process; None: `planning` is needed."""
    environ = os.environ
    if any(name.startswith(VARIABLE_PREFIX) for name in environ) or variable_of(group) in environ:
        return None
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return None
    if find_module(TABLE, None) is not None:  # a frozen application: `planning` reads its table
        return None
    machine = os.uname().machine
    documents = read_documents(sys.path, linked_folders())
    return None if documents is None else choose(group, documents, machine, _supported)


def _supported(namespace: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the feature that a provider detects quickly, and its supported values, best first."""
    name = f"wheelfit_runtime.platforms.providers.{namespace}.quick_look"
    try:
        quick_look = __import__(name, fromlist=("supported",))
    except ImportError:
        return None
    values = quick_look.supported()
    return (quick_look.FEATURE, values) if values else None


def read_documents(paths: Iterable[object], folders: Iterable[str]) -> list[Document] | None:
    """Return the content of all declaration files, in order of precedence.

    :return: None if any file is invalid, or declares dimensions.
    """
    problems: list[str] = []
    documents: list[Document] = []
    parse = _parser()
    try:
        for where in declaration_paths(paths, folders, problems):
            data = read_file(where)
            document = checked(parse(data.decode("utf-8").strip(" \t\n\r")))
            if len(data) > MAX_FILE_SIZE or "dimensions" in document:
                return None
            documents.append(document)
    except (InvalidDeclaration, ValueError, RecursionError, StopIteration, TypeError):
        return None
    except SystemError:  # Python 3.11's scanner cannot raise JSONDecodeError without json
        return None
    return None if problems else documents


def choose(
    group: str,
    documents: Iterable[Document],
    machine: str,
    supported: Callable[[str], tuple[str, tuple[str, ...]] | None],
) -> QuickChoice | None:
    """Return the best implementation of a group; None: `planning` is needed.

    :param documents: the result of `read_documents`.
    :param machine: the architecture, which is also the namespace of its features, as ``x86_64``.
    :param supported: returns a feature of a namespace and its supported values, the best first.
    """
    implementations: dict[str, Document] = {}
    for document in documents:
        if document["group"] == group and "implementation" in document:
            implementations.setdefault(document["implementation"], document)
    properties = {
        name: [split_property(text) for text in document.get("properties", ())]
        for name, document in implementations.items()
    }
    ranks: dict[str, int] = {}
    if any(properties.values()):
        support = supported(machine)
        if support is None:
            return None
        usable_feature = machine, support[0]
        if any(needed[:2] != usable_feature for items in properties.values() for needed in items):
            return None
        ranks = {value: rank for rank, value in enumerate(support[1])}
    compatible = []
    for name, document in implementations.items():
        supported_ranks = [ranks[value] for _, _, value in properties[name] if value in ranks]
        if supported_ranks or not properties[name]:
            rank = min(supported_ranks, default=_LAST)
            compatible.append((-document.get("priority", 0), rank, name))
    if not compatible:
        return None
    name = min(compatible)[2]
    document = implementations[name]
    return QuickChoice(name, document.get("distribution") or name, document["module"])


def _parser() -> Callable[[str], Any]:
    """Return a JSON parser.

    `json` imports `re`, which takes longer than all other imports of this module together, so it is
    used only if there is no scanner in C.
    """
    try:
        from _json import make_scanner
    except ImportError:  # another Python
        from json import loads

        return loads
    scan: Callable[[str, int], tuple[Any, int]] = make_scanner(_ScannerSettings)  # type: ignore[arg-type]

    def parse(text: str) -> Any:
        value, end = scan(text, 0)
        if end != len(text):
            raise ValueError
        return value

    return parse


class _ScannerSettings:
    """The attributes that the scanner reads of a `json.JSONDecoder`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = None
    memo: Mapping[str, str] = {}
