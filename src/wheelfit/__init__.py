"""Install the build that fits the machine: the Python API (docs/reference/api.md).

An operation is a function from a request and a context to a report. Nothing is imported here:
every name below is loaded from its module when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` for it takes longer than importing this module
if TYPE_CHECKING:
    from wheelfit.operations.build import BuildReport, build
    from wheelfit.operations.build_request import BuildRequest
    from wheelfit.operations.bundle import BundleReport, BundleRequest, bundle
    from wheelfit.operations.change_reports import ChangeReport
    from wheelfit.operations.check import CheckReport, CheckRequest, check
    from wheelfit.operations.context import Context, Reporter
    from wheelfit.operations.dependencies import (
        AddRequest,
        DependencyReport,
        RemoveRequest,
        add,
        remove,
    )
    from wheelfit.operations.download import DownloadReport, DownloadRequest, download
    from wheelfit.operations.explain import (
        ExplainReport,
        ExplainRequest,
        ResolveRequest,
        explain,
        resolve,
    )
    from wheelfit.operations.export import ExportReport, ExportRequest, export
    from wheelfit.operations.freeze import FreezeReport, FreezeRequest, freeze
    from wheelfit.operations.hosts import Host
    from wheelfit.operations.install import InstallRequest, install
    from wheelfit.operations.lock import LockReport, LockRequest, lock
    from wheelfit.operations.outdated import OutdatedReport, OutdatedRequest, list_outdated
    from wheelfit.operations.probe import ProbeReport, ProbeRequest, probe
    from wheelfit.operations.rewriting import RewriteReport
    from wheelfit.operations.select import SelectRequest, read_variants_json, select
    from wheelfit.operations.show import ShowReport, ShowRequest, show
    from wheelfit.operations.sync import SyncRequest, sync
    from wheelfit.operations.uninstall import UninstallReport, UninstallRequest, uninstall
    from wheelfit.operations.wheel_tests import WheelTestsReport, WheelTestsRequest, run_wheel_tests
    from wheelfit.operations.wheels import MakeVariantRequest, make_variant
    from wheelfit.operations.why import WhyReport, WhyRequest, why
    from wheelfit_runtime import __version__
    from wheelfit_runtime.errors import WheelfitError

__all__ = [
    "AddRequest",
    "BuildReport",
    "BuildRequest",
    "BundleReport",
    "BundleRequest",
    "ChangeReport",
    "CheckReport",
    "CheckRequest",
    "Context",
    "DependencyReport",
    "DownloadReport",
    "DownloadRequest",
    "ExplainReport",
    "ExplainRequest",
    "ExportReport",
    "ExportRequest",
    "FreezeReport",
    "FreezeRequest",
    "Host",
    "InstallRequest",
    "LockReport",
    "LockRequest",
    "MakeVariantRequest",
    "OutdatedReport",
    "OutdatedRequest",
    "ProbeReport",
    "ProbeRequest",
    "RemoveRequest",
    "Reporter",
    "ResolveRequest",
    "RewriteReport",
    "SelectRequest",
    "ShowReport",
    "ShowRequest",
    "SyncRequest",
    "UninstallReport",
    "UninstallRequest",
    "WheelTestsReport",
    "WheelTestsRequest",
    "WheelfitError",
    "WhyReport",
    "WhyRequest",
    "__version__",
    "add",
    "build",
    "bundle",
    "check",
    "download",
    "explain",
    "export",
    "freeze",
    "install",
    "list_outdated",
    "lock",
    "make_variant",
    "probe",
    "read_variants_json",
    "remove",
    "resolve",
    "run_wheel_tests",
    "select",
    "show",
    "sync",
    "uninstall",
    "why",
]

_NAMES = {
    "wheelfit.operations.build": ("BuildReport", "build"),
    "wheelfit.operations.build_request": ("BuildRequest",),
    "wheelfit.operations.bundle": ("BundleReport", "BundleRequest", "bundle"),
    "wheelfit.operations.change_reports": ("ChangeReport",),
    "wheelfit.operations.check": ("CheckReport", "CheckRequest", "check"),
    "wheelfit.operations.context": ("Context", "Reporter"),
    "wheelfit.operations.dependencies": (
        "AddRequest",
        "DependencyReport",
        "RemoveRequest",
        "add",
        "remove",
    ),
    "wheelfit.operations.download": ("DownloadReport", "DownloadRequest", "download"),
    "wheelfit.operations.explain": (
        "ExplainReport",
        "ExplainRequest",
        "ResolveRequest",
        "explain",
        "resolve",
    ),
    "wheelfit.operations.export": ("ExportReport", "ExportRequest", "export"),
    "wheelfit.operations.freeze": ("FreezeReport", "FreezeRequest", "freeze"),
    "wheelfit.operations.hosts": ("Host",),
    "wheelfit.operations.install": ("InstallRequest", "install"),
    "wheelfit.operations.lock": ("LockReport", "LockRequest", "lock"),
    "wheelfit.operations.outdated": ("OutdatedReport", "OutdatedRequest", "list_outdated"),
    "wheelfit.operations.probe": ("ProbeReport", "ProbeRequest", "probe"),
    "wheelfit.operations.rewriting": ("RewriteReport",),
    "wheelfit.operations.select": ("SelectRequest", "read_variants_json", "select"),
    "wheelfit.operations.show": ("ShowReport", "ShowRequest", "show"),
    "wheelfit.operations.sync": ("SyncRequest", "sync"),
    "wheelfit.operations.uninstall": ("UninstallReport", "UninstallRequest", "uninstall"),
    "wheelfit.operations.wheel_tests": ("WheelTestsReport", "WheelTestsRequest", "run_wheel_tests"),
    "wheelfit.operations.wheels": ("MakeVariantRequest", "make_variant"),
    "wheelfit.operations.why": ("WhyReport", "WhyRequest", "why"),
    "wheelfit_runtime": ("__version__",),
    "wheelfit_runtime.errors": ("WheelfitError",),
}
"""The names by the module that defines them."""


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    for module, names in _NAMES.items():
        if name in names:
            # Not `importlib`, whose import takes a millisecond.
            value = getattr(__import__(module, fromlist=(name,)), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
