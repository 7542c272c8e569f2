"""Install the build that fits the machine: the Python API (docs/reference/api.md).

An operation is a function from a request and a context to a report. Nothing is imported here:
every name below is loaded from its module when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all of this
if TYPE_CHECKING:
    from wheelfit.errors import WheelfitError
    from wheelfit.operations.change_reports import ChangeReport
    from wheelfit.operations.context import Context, Reporter
    from wheelfit.operations.documents import read_variants_json
    from wheelfit.operations.hosts import Host
    from wheelfit.operations.install import InstallRequest, install
    from wheelfit.operations.resolve import ResolveRequest, resolve
    from wheelfit.operations.select import SelectRequest, select
    from wheelfit.operations.sync import SyncRequest, sync

__all__ = [
    "ChangeReport",
    "Context",
    "Host",
    "InstallRequest",
    "Reporter",
    "ResolveRequest",
    "SelectRequest",
    "SyncRequest",
    "WheelfitError",
    "install",
    "read_variants_json",
    "resolve",
    "select",
    "sync",
]

__version__ = "0.1.0"

_HOMES = {
    "ChangeReport": "wheelfit.operations.change_reports",
    "Context": "wheelfit.operations.context",
    "Host": "wheelfit.operations.hosts",
    "InstallRequest": "wheelfit.operations.install",
    "Reporter": "wheelfit.operations.context",
    "ResolveRequest": "wheelfit.operations.resolve",
    "SelectRequest": "wheelfit.operations.select",
    "SyncRequest": "wheelfit.operations.sync",
    "WheelfitError": "wheelfit.errors",
    "install": "wheelfit.operations.install",
    "read_variants_json": "wheelfit.operations.documents",
    "resolve": "wheelfit.operations.resolve",
    "select": "wheelfit.operations.select",
    "sync": "wheelfit.operations.sync",
}


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # No `importlib`, whose import takes a millisecond; what is imported stands in sys.modules.
    found = getattr(__import__(home, fromlist=(name,)), name)
    globals()[name] = found
    return found
