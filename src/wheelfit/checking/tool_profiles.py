"""Profiles: rules of tools and indexes beyond the standards, and severities of checks (F-155)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.checking import checks
from wheelfit.checking.checks import CHECKS
from wheelfit.checking.findings import Finding, Location, Report, Severity
from wheelfit.core.provider_table import EMULATED_PLUGINS
from wheelfit.core.providers import BuiltinProvider, PluginProvider, StaticProvider
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.strict_json import path_of
from wheelfit.core.variant_json_layouts.schema import PEP_850
from wheelfit.errors import InvalidRequirement
from wheelfit.sources.page import File, time_of_upload
from wheelfit_runtime.platforms.features import Detection, FeatureConfig, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.filename import WheelFilename


class Profile(StrEnum):
    """A tool or index whose own rules are checked, too."""

    UV = "uv"
    """uv 0.13.8, whose preview supports variants (F-150 to F-154)."""
    PYPI = "pypi"
    """The public registry, for uploads (B-53)."""
    CONDA_FORGE = "conda-forge"
    """Recipes that package the files of a wheel, with libraries from other packages."""
    INTERNAL = "internal"
    """Wheels of an organisation for itself, with stricter rules than for publishing."""


class CheckOptions(NamedTuple):
    """The depth of checks; can be pickled."""

    full: bool = False
    """Whether every member is unpacked and hashed, and files are compared with the hashes on pages;
    otherwise RECORD is compared with the central directory, and only metadata is read."""
    binaries: bool = False
    """Whether the claims of a wheel are compared with the binaries in it (B-60)."""
    instructions: bool = False
    """With ``binaries``: whether their instructions are examined, which takes longer (P-102)."""
    profiles: frozenset[Profile] = frozenset()
    """Tools and indexes whose own rules are checked, too."""


# P-60: package, emulated version and plugin-api of the providers that uv has, by namespace.
_UV_PROVIDERS: Mapping[str, tuple[str, str, str | None]] = {
    "nvidia": (
        "nvidia-variant-provider",
        "0.0.1",
        "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
    ),
    "x86_64": ("x86-64-variant-provider", "0.2.1", None),
    "aarch64": ("aarch64-variant-provider", "0.2.0", None),
    "tpu": ("tpu-variant-provider", "0.1.0", "tpu_variant_provider.plugin:TpuVariantPlugin"),
}
_ENDPOINTS = {row.package: row.endpoints for row in EMULATED_PLUGINS}


def document_findings(
    document: VariantDocument, location: Location, profiles: frozenset[Profile]
) -> Iterator[Finding]:
    """Yield findings about parts of a document that a tool does not support."""
    if Profile.UV not in profiles:
        return
    if document.schema != PEP_850:
        schema = document.schema or "missing"
        yield location.finding(checks.UV_SCHEMA, f"the $schema is {schema}", path="$schema")
    used = {name for properties in document.variants.values() for name in properties.namespaces}
    for namespace in document.priorities:
        path = path_of("providers", namespace)
        match document.providers.get(namespace):
            case None if namespace in used:
                yield location.finding(
                    checks.UV_PROVIDERS, f"{namespace} is used, but has no provider", path=path
                )
            case PluginProvider() as provider if namespace in _UV_PROVIDERS:
                yield from _uv_provider_findings(namespace, provider, location, path)
            case PluginProvider() | BuiltinProvider() if namespace in used:
                yield location.finding(
                    checks.UV_UNSUPPORTED,
                    f"no variant that needs {namespace} is ever chosen",
                    path=path,
                )
            case StaticProvider(enabled_by=marker) if marker is not None:
                yield location.finding(
                    checks.UV_SCHEMA, "enable-if is a key of old layouts", path=path
                )


def _uv_provider_findings(
    namespace: str, provider: PluginProvider, location: Location, path: str
) -> Iterator[Finding]:
    package, version, endpoint = _UV_PROVIDERS[namespace]
    remedy = f'write "requires": ["{package}>={version},<1"]'
    remedy += f' and "plugin-api": "{endpoint}"' if endpoint else " without plugin-api"

    def finding(reason: str) -> Finding:
        return location.finding(checks.UV_PROVIDER, reason, path=path, remedy=remedy)

    if len(provider.requires) != 1:
        yield finding(f"it requires {len(provider.requires)} packages, not exactly one")
        return
    try:
        requirement = parse_requirement(provider.requires[0], allow_variant_markers=False)
    except InvalidRequirement:
        return  # the check of the document reports it
    if requirement.name != package:
        yield finding(f"it requires {requirement.name}, not {package}")
        return
    if requirement.extras or requirement.url or requirement.marker:
        yield finding("the requirement has an extra, a URL or a marker")
    elif not requirement.specifier.contains(version, prereleases=True):
        yield location.finding(
            checks.UV_VERSION_RANGE,
            f"{provider.requires[0]} excludes {version}",
            path=path,
            remedy=remedy,
        )
    plugin_api = provider.plugin_api
    accepted = (endpoint,) if endpoint else (None, *_ENDPOINTS[package])
    if (plugin_api or None) not in accepted:
        yield finding(f"its plugin-api is {plugin_api or 'missing'}")


_UV_FEATURES: Mapping[str, frozenset[str]] = {
    "nvidia": frozenset(["cuda_version_lower_bound", "cuda_version_upper_bound", "sm_arch"]),
    "x86_64": frozenset(["level"]),
    "aarch64": frozenset(["version"]),
}
"""The features that uv detects, by namespace; it detects all features of other namespaces."""
_UNDETECTED_BY_UV = frozenset([("aarch64", "version", "8.5a"), ("aarch64", "version", "9.0a")])
"""Values that uv does not detect, since programs in user space cannot detect them (P-113)."""
_UV_DRIVERS = (11, 15)
"""The first and last CUDA major of drivers that uv supports (P-84)."""


def is_read_by_uv(document: VariantDocument) -> bool:
    """Return whether uv's preview reads a document; if not, it skips the release (F-150)."""
    location = Location("")
    findings = document_findings(document, location, frozenset([Profile.UV]))
    return not any(finding.code == checks.UV_SCHEMA.code for finding in findings)


def uv_detections(
    document: VariantDocument, detections: Mapping[str, Detection]
) -> dict[str, Detection]:
    """Return the detections of uv's preview on a machine (P-60, P-83, P-84, P-113).

    :param document: the document of the release; only namespaces that uv queries for it are used.
    """
    return {
        namespace: _uv_detection(detection)
        for namespace, detection in detections.items()
        if _is_queried_by_uv(namespace, document)
    }


def _is_queried_by_uv(namespace: str, document: VariantDocument) -> bool:
    match document.providers.get(namespace):
        case StaticProvider():
            return True
        case PluginProvider() as provider if namespace in _UV_PROVIDERS:
            return not any(_uv_provider_findings(namespace, provider, Location(""), ""))
    return False


def _uv_detection(detection: Detection) -> Detection:
    if detection.step == "static-list":
        return detection
    names = _UV_FEATURES.get(detection.namespace)
    features = tuple(
        feature._replace(values=tuple(_uv_values(detection.namespace, feature)))
        for feature in detection.features
        if names is None or feature.name in names
    )
    if detection.namespace == "nvidia" and not _is_supported_driver(features):
        features = ()
    status = detection.status if any(feature.values for feature in features) else Status.NOTHING
    return detection._replace(features=features, status=status)


def _uv_values(namespace: str, feature: FeatureConfig) -> Iterator[str]:
    for value in feature.values:
        if (namespace, feature.name, value) in _UNDETECTED_BY_UV:
            continue
        yield value
        if feature.name == "sm_arch" and value.endswith("_virtual"):
            return  # uv has one virtual value, the last; wheelfit has more behind it (P-83)


def _is_supported_driver(features: Iterable[FeatureConfig]) -> bool:
    """Return whether uv supports the driver, by the newest CUDA version it runs."""
    for feature in features:
        if feature.name == "cuda_version_lower_bound" and feature.values:
            first, last = _UV_DRIVERS
            return first <= int(feature.values[0].partition(".")[0]) <= last
    return False


MAX_FILE_SIZE = 100_000_000
"""Size of the largest file that the public registry accepts by default, in bytes."""
MAX_PROJECT_SIZE = 10_000_000_000
"""Size of a project that it accepts by default, in bytes."""
_UPLOAD_PERIOD = timedelta(days=14)


def wheel_findings(
    filename: WheelFilename, size: int | None, location: Location, profiles: frozenset[Profile]
) -> Iterator[Finding]:
    """Yield findings about the name and size of a wheel by the registry's rules (B-53)."""
    if Profile.PYPI not in profiles:
        return
    if filename.is_variant:
        yield location.finding(
            checks.PYPI_VARIANT_WHEEL, f"the file name has the label {filename.label}"
        )
    if size is not None and size > MAX_FILE_SIZE:
        yield location.finding(checks.PYPI_FILE_SIZE, f"it has {size} bytes")
    linux_platforms = sorted(
        {tag.platform for tag in filename.tags if tag.platform.startswith("linux_")}
    )
    if linux_platforms:
        yield location.finding(
            checks.PYPI_PLATFORM, f"the platform is {', '.join(linux_platforms)}"
        )


def project_findings(
    files: Iterable[File], location: Location, profiles: frozenset[Profile]
) -> Iterator[Finding]:
    """Yield violations of the registry's limits by all files of a project together (B-53)."""
    if Profile.PYPI not in profiles:
        return
    total = sum(file.size or 0 for file in files)
    if total > MAX_PROJECT_SIZE:
        yield location.finding(checks.PYPI_PROJECT_SIZE, f"its files have {total} bytes together")


def is_closed(files: Iterable[File], now: datetime) -> bool:
    """Return whether a release is too old for more files (B-53)."""
    times = [time for file in files if (time := time_of_upload(file)) is not None]
    return bool(times) and now - min(times) > _UPLOAD_PERIOD


# --- severities by profile ---------------------------------------------------------------------

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING

SEVERITIES: Mapping[Profile, Mapping[str, Severity | None]] = MappingProxyType(
    {
        # The registry's refusals of an upload.
        Profile.PYPI: {"unknown-classifier": _ERROR, "deprecated-classifier": _ERROR},
        Profile.CONDA_FORGE: {
            # Conda packages have no wheel tags.
            "wrong-wheel-tags": None,
            # Two packages must not have the same files.
            "generic-top-level": _ERROR,
            "compiled-python": _ERROR,
            "startup-code": _WARNING,
            # Conda packages are not uploaded to PyPI, which refuses these.
            "unknown-classifier": None,
            "deprecated-classifier": None,
            # Libraries, the C library too, are packages.
            "platform-too-old": None,
            "external-library": None,
            # Builds are relocated.
            "rpath-leads-out": None,
            "build-path": _WARNING,
            # No wheels are published.
            "no-plain-wheel": None,
            "no-index-file": None,
        },
        # An organisation can apply stricter rules to its own builds than to others.
        Profile.INTERNAL: {
            "generic-top-level": _ERROR,
            "compiled-python": _ERROR,
            "startup-code": _WARNING,
            "unknown-classifier": None,
            "deprecated-classifier": None,
            "rpath-leads-out": _ERROR,
            "debug-symbols": _ERROR,
            "build-path": _WARNING,
            "duplicate-library": _WARNING,
            "unhashed-files": _ERROR,
        },
    }
)
"""The severities that differ, by profile and check; None: the check is off."""


def with_profile_severities(report: Report, profiles: frozenset[Profile]) -> Report:
    """Return a report with the severities of profiles; of several the highest is used."""
    if not profiles & SEVERITIES.keys():
        return report
    changed_findings = [_with_profile_severity(finding, profiles) for finding in report.findings]
    return replace(
        report,
        findings=tuple(finding for finding in changed_findings if finding is not None),
    )


def _with_profile_severity(finding: Finding, profiles: frozenset[Profile]) -> Finding | None:
    declared = CHECKS[finding.code].severity if finding.code in CHECKS else finding.severity
    severities = [SEVERITIES.get(profile, {}).get(finding.code, declared) for profile in profiles]
    enabled = [severity for severity in severities if severity is not None]
    if not enabled:
        return None
    severity = min(enabled, key=list(Severity).index)  # the highest comes first in `Severity`
    has_own_severity = finding.severity is not declared  # which it keeps
    if has_own_severity or severity is declared:
        return finding
    return finding._replace(severity=severity)
