"""Install the build that fits the machine: the Python API (docs/reference/api.md).

An operation is a function from a request and a context to a report. Nothing is imported here:
every name below is loaded from its module when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all of this
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
    from wheelfit.operations.wheel_tests import (
        WheelTestsReport,
        WheelTestsRequest,
        run_wheel_tests,
    )
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

_MODULES = {
    "AddRequest": "wheelfit.operations.dependencies",
    "BuildReport": "wheelfit.operations.build",
    "BuildRequest": "wheelfit.operations.build_request",
    "BundleReport": "wheelfit.operations.bundle",
    "BundleRequest": "wheelfit.operations.bundle",
    "ChangeReport": "wheelfit.operations.change_reports",
    "CheckReport": "wheelfit.operations.check",
    "CheckRequest": "wheelfit.operations.check",
    "Context": "wheelfit.operations.context",
    "DependencyReport": "wheelfit.operations.dependencies",
    "DownloadReport": "wheelfit.operations.download",
    "DownloadRequest": "wheelfit.operations.download",
    "ExplainReport": "wheelfit.operations.explain",
    "ExplainRequest": "wheelfit.operations.explain",
    "ExportReport": "wheelfit.operations.export",
    "ExportRequest": "wheelfit.operations.export",
    "FreezeReport": "wheelfit.operations.freeze",
    "FreezeRequest": "wheelfit.operations.freeze",
    "Host": "wheelfit.operations.hosts",
    "InstallRequest": "wheelfit.operations.install",
    "LockReport": "wheelfit.operations.lock",
    "LockRequest": "wheelfit.operations.lock",
    "MakeVariantRequest": "wheelfit.operations.wheels",
    "OutdatedReport": "wheelfit.operations.outdated",
    "OutdatedRequest": "wheelfit.operations.outdated",
    "ProbeReport": "wheelfit.operations.probe",
    "ProbeRequest": "wheelfit.operations.probe",
    "RemoveRequest": "wheelfit.operations.dependencies",
    "Reporter": "wheelfit.operations.context",
    "ResolveRequest": "wheelfit.operations.explain",
    "RewriteReport": "wheelfit.operations.rewriting",
    "SelectRequest": "wheelfit.operations.select",
    "ShowReport": "wheelfit.operations.show",
    "ShowRequest": "wheelfit.operations.show",
    "SyncRequest": "wheelfit.operations.sync",
    "UninstallReport": "wheelfit.operations.uninstall",
    "UninstallRequest": "wheelfit.operations.uninstall",
    "WheelTestsReport": "wheelfit.operations.wheel_tests",
    "WheelTestsRequest": "wheelfit.operations.wheel_tests",
    "WheelfitError": "wheelfit_runtime.errors",
    "WhyReport": "wheelfit.operations.why",
    "WhyRequest": "wheelfit.operations.why",
    "__version__": "wheelfit_runtime",
    "add": "wheelfit.operations.dependencies",
    "build": "wheelfit.operations.build",
    "bundle": "wheelfit.operations.bundle",
    "check": "wheelfit.operations.check",
    "download": "wheelfit.operations.download",
    "explain": "wheelfit.operations.explain",
    "export": "wheelfit.operations.export",
    "freeze": "wheelfit.operations.freeze",
    "install": "wheelfit.operations.install",
    "list_outdated": "wheelfit.operations.outdated",
    "lock": "wheelfit.operations.lock",
    "make_variant": "wheelfit.operations.wheels",
    "probe": "wheelfit.operations.probe",
    "read_variants_json": "wheelfit.operations.select",
    "remove": "wheelfit.operations.dependencies",
    "resolve": "wheelfit.operations.explain",
    "run_wheel_tests": "wheelfit.operations.wheel_tests",
    "select": "wheelfit.operations.select",
    "show": "wheelfit.operations.show",
    "sync": "wheelfit.operations.sync",
    "uninstall": "wheelfit.operations.uninstall",
    "why": "wheelfit.operations.why",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Not `importlib`, whose import takes a millisecond.
    value = getattr(__import__(module, fromlist=(name,)), name)
    globals()[name] = value
    return value
