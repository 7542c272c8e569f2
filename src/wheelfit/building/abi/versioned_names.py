"""Read versions from the names of symbols: namespaces of C++ that carry one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ICU = "u|ubidi|ubrk|ucal|ucnv|ucol|udat|uenum|uloc|unorm2?|unum|uregex|ures|uscript|uset|utext"
# What upstream puts into its namespaces, as of November 2026: the library, how a compiler writes
# the namespace into a symbol, and what stands for the version in it.
_NAMESPACES = (
    ("Abseil", "absl::lts_{}", pattern(r"4absl12lts_(\d{8})")),
    ("ICU", "icu_{}", pattern(rf"6icu_(\d{{2}})|\A(?:{_ICU})_\w+_(\d{{2}})\Z")),
    ("fmt", "fmt::v{}", pattern(r"3fmt(?:2v(\d)|3v(\d\d))")),
    (
        "nlohmann/json",
        "nlohmann::json_abi_v{}",
        pattern(r"15json_abi_v(\d_\d_\d)|16json_abi_v(\d_\d\d_\d)"),
    ),
)


def namespace_notes(symbols: Iterable[str]) -> Iterator[str]:
    """Yield which releases of other libraries the names of wanted symbols are of.

    >>> list(namespace_notes(["_ZN4absl12lts_202407223NowEv"]))
    ['absl::lts_20240722 (1 symbol) is in releases 20240722.* of Abseil only']
    """
    found: Counter[tuple[str, str, str]] = Counter()
    for symbol in symbols:
        name = symbol.partition("@")[0]
        for library, written, expression in _NAMESPACES:
            if (match := expression.search(name)) is not None:
                version = next(one for one in match.groups() if one is not None)
                found[library, written, version] += 1
    for (library, written, version), count in sorted(found.items()):
        releases = version.replace("_", ".") + ("" if "_" in version else ".*")
        yield (
            f"{written.format(version)} ({count_of(count, 'symbol')}) is in releases {releases} of "
            f"{library} only"
        )
