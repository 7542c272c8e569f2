"""Install the build that fits the machine: the Python API (docs/reference/api.md).

An operation is a function from a request and a context to a report. Nothing is imported here:
every name below is loaded from its module when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all of this
if TYPE_CHECKING:
    from wheelfit.operations.change_reports import ChangeReport
    from wheelfit.operations.context import Context, Reporter
    from wheelfit.operations.documents import read_variants_json
    from wheelfit.operations.hosts import Host
    from wheelfit.operations.install import InstallRequest, install
    from wheelfit.operations.resolve import ResolveRequest, resolve
    from wheelfit.operations.select import SelectRequest, select
    from wheelfit.operations.sync import SyncRequest, sync
    from wheelfit_runtime import __version__
    from wheelfit_runtime.errors import WheelfitError

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
    "__version__",
    "install",
    "read_variants_json",
    "resolve",
    "select",
    "sync",
]

_HOMES = {
    "__version__": "wheelfit_runtime",
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
    return __all__


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # No `importlib`, whose import takes a millisecond; what is imported stands in sys.modules.
    found = getattr(__import__(home, fromlist=(name,)), name)
    globals()[name] = found
    return found
