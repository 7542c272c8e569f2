"""The ``$schema`` of a document: an identifier, which is never fetched (F-31, F-40)."""

from __future__ import annotations

from msgspec import Struct

from wheelfit_runtime.patterns import pattern

KEY = "$schema"
HOST = "variants-schema.wheelnext.dev"
"""The host in the identifiers of drafts."""
_HOSTS = frozenset([HOST, "packaging.python.org"])
BARE = frozenset([f"https://{HOST}", f"https://{HOST}/"])
"""The identifiers without a version, which documents of the first layout have (F-46)."""

PEP_850 = f"https://{HOST}/peps/850/v0.2.0.json"
PEP_825 = f"https://{HOST}/peps/825/v0.1.1.json"

_URL = pattern(r"https://(?P<host>[^/?#]*)(?P<path>/[^?#]*)")
_VERSION = pattern(r"/v([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})\.json\Z")


class SchemaName(Struct, frozen=True):
    """The parts of a ``$schema`` that has a version."""

    host: str
    path: str
    """With the leading slash, such as ``/peps/850/v0.2.0.json``."""
    version: tuple[int, int, int]
    """Major, minor and patch."""

    @property
    def is_known_host(self) -> bool:
        """Whether the host is one that the format uses (F-40)."""
        return self.host in _HOSTS


def parse_schema(text: str) -> SchemaName | None:
    """Read a ``$schema`` (F-40).

    :return: its parts; None when it is not a URL with a version.
    """
    url = _URL.fullmatch(text)
    version = url and _VERSION.search(url["path"])
    if not url or not version:
        return None
    major, minor, patch = (int(number) for number in version.groups())
    return SchemaName(url["host"], url["path"], (major, minor, patch))
