"""Every check finds what it is for, and is silent about a sound release."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from checking.broken_wheels import BROKEN, LINUX, plain, variant
from checking.releases import (
    DOCUMENT,
    INDEX_FILE,
    NVIDIA,
    check,
    codes,
    document,
    rewritten,
    sound_release,
    write,
)
from wheels.binaries.extension_modules import MODULE, compiled

from wheelfit.checking.checks import CHECKS, DOCUMENT_CHECKS
from wheelfit.checking.findings import Severity
from wheelfit.checking.tool_profiles import Profile
from wheelfit.checking.wheels.wheel import check_wheel
from wheelfit.testing.binaries import elf_file, fat_binary
from wheelfit.testing.wheels import add_member, build_large_wheel, build_wheel, release_document

Edit = Callable[[dict[str, Any]], object]


def variants(found: dict[str, Any]) -> dict[str, Any]:
    """Return the variants of a document."""
    inner: dict[str, Any] = found["variants"]
    return inner


def gpu(found: dict[str, Any]) -> dict[str, Any]:
    """Return what the GPU variant needs."""
    inner: dict[str, Any] = found["variants"]["cu128"]["nvidia"]
    return inner


def provide(found: dict[str, Any], namespace: str, provider: Mapping[str, Any]) -> dict[str, Any]:
    """Add a namespace to a document, with its provider, and return the document."""
    found["providers"][namespace] = provider
    found["default-priorities"]["namespace"].append(namespace)
    return found


LAYOUTS = "https://variants-schema.wheelnext.dev"
ABI = {"builtin": "abi_dependency"}
X86_64 = {"requires": ["x86-64-variant-provider<1"]}
TORCH = {"torch28": {"abi": {"torch": ["2.8"]}}}


# One edit of a sound document for each check of documents.
DOCUMENTS: dict[str, Edit] = {
    "unsupported-schema": lambda d: d.update({"$schema": f"{LAYOUTS}/peps/850/v9.0.0.json"}),
    "wrong-keys": lambda d: d.update({"default-priority": {}}),
    "wrong-type": lambda d: gpu(d).update({"sm_arch": "90_real"}),
    "invalid-name": lambda d: variants(d).update({"CUDA": {"blas": {"library": ["mkl"]}}}),
    "reserved-label": lambda d: variants(d).update({"con": {"blas": {"library": ["mkl"]}}}),
    "null-with-properties": lambda d: variants(d)["null"].update({"blas": {"library": ["mkl"]}}),
    "label-without-properties": lambda d: variants(d).update({"cpu": {}}),
    "bad-priorities": lambda d: gpu(d) and variants(d)["mkl"].update({"x": {"y": ["z"]}}),
    "providers-differ": lambda d: d["providers"].update({"x": {"requires": ["x"]}}),
    "bad-values": lambda d: gpu(d).update({"sm_arch": ["90_real", "80_real"]}),
    "empty-namespace": lambda d: variants(d)["mkl"].update({"nvidia": {}}),
    "providers-not-allowed": lambda d: d.update({"$schema": f"{LAYOUTS}/peps/825/v0.1.1.json"}),
    "bad-provider": lambda d: d["providers"]["blas"].update({"requires": ["blas"]}),
    "bad-abi-value": lambda d: (
        provide(d, "abi", ABI),
        variants(d)["mkl"].update({"abi": {"torch": ["2.08"]}}),
    ),
    "old-layout": lambda d: d.update({"$schema": f"{LAYOUTS}/peps/826/v0.2.0.json"}),
    "no-providers": lambda d: (
        d.update({"$schema": f"{LAYOUTS}/peps/825/v0.1.1.json"}),
        d.pop("providers"),
    ),
    "unselectable-variant": lambda d: variants(d)["mkl"]["blas"].update({"vendor": ["intel"]}),
    "dead-value": lambda d: variants(d)["mkl"]["blas"].update({"library": ["mkl", "mlk"]}),
    "unused-list": lambda d: provide(d, "property", {"static-properties": {"order": ["1"]}}),
    "unknown-feature": lambda d: gpu(d).update({"driver": ["12"]}),
    "unknown-value": lambda d: gpu(d).update({"sm_arch": ["35_real", "90_real"]}),
    "unpublished-value": lambda d: gpu(d).update({"sm_arch": ["90_real", "90a_real"]}),
    "disputed-spelling": lambda d: (
        provide(d, "aarch64", {"requires": ["aarch64-variant-provider<1"]}),
        variants(d)["mkl"].update({"aarch64": {"btiecv": ["on"]}}),
    ),
    "several-values": lambda d: gpu(d).update({"cuda_version_lower_bound": ["12.0", "12.8"]}),
    "vendor-static-list": lambda d: d["providers"].update(
        {
            "nvidia": {
                "static-properties": {
                    "sm_arch": ["80_real", "90_real"],
                    "cuda_version_lower_bound": ["12.8"],
                },
                "feature-order": ["sm_arch", "cuda_version_lower_bound"],
            }
        }
    ),
    "unrecognised-provider": lambda d: d["providers"].update({"nvidia": {"requires": ["mine"]}}),
    "needs-trust": lambda d: d["providers"].update({"blas": {"requires": ["blas-provider"]}}),
    "lookalike-namespace": lambda d: provide(d, "nvidla", NVIDIA),
    "same-properties": lambda d: variants(d).update({"intel_blas": variants(d)["mkl"]}),
    "similar-label": lambda d: (
        provide(d, "x86_64", X86_64),
        variants(d).update({"x8664vv4": {"x86_64": {"level": ["v4"]}}}),
    ),
    "stale-label": lambda d: variants(d).update({"12345678": {"blas": {"library": ["mkl"]}}}),
    "long-label": lambda d: variants(d).update({"l" * 33: {"blas": {"library": ["mkl"]}}}),
    "uv-schema": lambda d: d.update({"$schema": f"{LAYOUTS}/v0.2.0.json"}),
    "uv-providers": lambda d: d["providers"].pop("blas"),
    "uv-provider": lambda d: d["providers"]["nvidia"].pop("plugin-api"),
    "uv-version-range": lambda d: d["providers"]["nvidia"].update(
        {"requires": ["nvidia-variant-provider>=0.0.2,<1.0.0"]}
    ),
    "uv-unsupported": lambda d: (
        provide(d, "abi", ABI),
        variants(d)["mkl"].update({"abi": {"torch": ["2.8"]}}),
    ),
}


def page(folder: Path, *entries: str) -> None:
    """Write an index page."""
    (folder / "index.html").write_text("<!DOCTYPE html>\n" + "\n".join(entries))


def two_index_files(folder: Path) -> None:
    """Write two index files of one release."""
    sound_release(folder)
    write(folder / "fast-1.0.0-variants.json", DOCUMENT)


def disagreeing(folder: Path) -> None:
    """Write an index file that says something else than a wheel."""
    sound_release(folder)
    other = document(lambda d: gpu(d).update({"cuda_version_lower_bound": ["12.0"]}))
    write(folder / INDEX_FILE, other)


def contradicting(folder: Path) -> None:
    """Build wheels whose priorities begin differently."""
    variant(folder)
    other = document(lambda d: d["default-priorities"]["namespace"].reverse())
    variant(folder, "null", document=other)


def listed(folder: Path, attributes: str, digest: str | None = None) -> None:
    """Write a page with an index file that is there."""
    sound_release(folder)
    right = hashlib.sha256((folder / INDEX_FILE).read_bytes()).hexdigest()
    fragment = "" if digest == "" else f"#sha256={digest or right}"
    wheels = [f'<a href="{path.name}">{path.name}</a>' for path in sorted(folder.glob("*.whl"))]
    page(folder, *wheels, f'<a href="{INDEX_FILE}{fragment}" {attributes}>{INDEX_FILE}</a>')


def respelt(path: Path) -> None:
    """Spell the dist-info folder of a wheel in another way than the file."""
    with zipfile.ZipFile(path) as old:
        members = [(name, old.read(name)) for name in old.namelist()]
    with zipfile.ZipFile(path, "w") as new:
        for name, content in members:
            add_member(new, name.replace("fast-1.0.dist", "Fast-1.0.dist"), content)


def abi_wheel(folder: Path, *requires: str) -> None:
    """Build a wheel that was made for torch 2.8."""
    whole = release_document(TORCH, providers={"abi": ABI})
    variant(folder, "torch28", document=whole, requires=requires)


LEVEL_V2 = document(lambda d: (
    provide(d, "x86_64", X86_64),
    variants(d)["cu128"].update({"x86_64": {"level": ["v2"]}}),
))  # fmt: skip


def native(folder: Path, binary: bytes, whole: dict[str, Any] | None = None) -> None:
    """Build a wheel for Linux that has a binary, and claims code for 8.0 and 9.0 and CUDA 12.8."""
    files = {"fast/_native.so": binary}
    variant(folder, "cu128", document=whole or DOCUMENT, files=files, tag=LINUX)


# One way to spoil a folder for each check of wheels, releases and pages.
FOLDERS: dict[str, Callable[[Path], object]] = {
    **dict(BROKEN.values()),
    "unreadable-document": lambda f: write(f / INDEX_FILE, b'{"variants": {}, "variants": {}}'),
    "invalid-document": lambda f: write(
        f / INDEX_FILE,
        document(
            lambda d: (
                d.update({"$schema": f"{LAYOUTS}/peps/825/v0.1.0.json"}),
                d["default-priorities"].update({"feature": {"blas": ["library", "library"]}}),
            )
        ),
    ),
    "wrong-label": lambda f: variant(f).rename(f / "fast-1.0-py3-none-any-other.whl"),
    "invalid-filename": lambda f: write(f / "fast-1.0-py3-none-any-CUDA.whl", b""),
    "unusual-filename": lambda f: plain(f).rename(f / "Fast-1.0-py3-none-any.whl"),
    "unsound-archive": lambda f: write(f / "fast-1.0-py3-none-any.whl", b"no archive at all"),
    "record-leads-out": lambda f: rewritten(plain(f), {"RECORD": b"../../victim,,\n"}),
    "signed-record": lambda f: rewritten(
        plain(f), additions={"fast-1.0.dist-info/RECORD.jws": b"{}"}
    ),
    "unportable-name": lambda f: plain(f, files={"license./MIT": ""}),
    "missing-document": lambda f: build_wheel(f, "fast", "1.0", label="mkl"),
    "document-in-plain-wheel": lambda f: plain(f, document=DOCUMENT),
    "repeated-metadata": lambda f: rewritten(
        plain(f), {"METADATA": b"Name: fast\nVersion: 1.0\nVersion: 2\n"}
    ),
    "invalid-requirement": lambda f: plain(f, requires=['a; variant_namespaces == "nvidia"']),
    "variant-marker-in-plain-wheel": lambda f: plain(
        f, requires=['a; "nvidia" in variant_namespaces']
    ),
    "marker-never-matches": lambda f: variant(
        f, requires=['a; "nvidia :: sm_arch" in variant_properties']
    ),
    "undeclared-in-marker": lambda f: (
        sound_release(f),
        variant(f, requires=['a; "nvidia :: sm_arch :: 91_real" in variant_properties']),
    ),
    "deprecated-classifier": lambda f: plain(
        f, metadata_extra=[("Classifier", "Natural Language :: Ukranian")]
    ),
    "abi-contradiction": lambda f: abi_wheel(f, "torch>=2.9"),
    "abi-not-required": abi_wheel,
    "startup-code": lambda f: plain(f, files={"fast.pth": "import fast"}),
    "bad-script": lambda f: plain(f, entry_points={"console_scripts": {"python": "fast:main"}}),
    "reserved-file": lambda f: plain(f, files={"fast-1.0.data/data/pip.conf": "[global]"}),
    "no-such-code": lambda f: native(f, elf_file(sections={".nv_fatbin": fat_binary("sm_80")})),
    "unclaimed-code": lambda f: native(
        f, elf_file(sections={".nv_fatbin": fat_binary("sm_75", "sm_80", "sm_90")})
    ),
    "no-sm-arch": lambda f: native(
        f,
        elf_file(sections={".nv_fatbin": fat_binary("sm_80")}),
        document(lambda d: gpu(d).pop("sm_arch")),
    ),
    "wrong-cuda-bound": lambda f: native(f, elf_file(needed=["libcudart.so.13"])),
    "level-too-low": lambda f: native(f, elf_file(levels_needed=0b111), LEVEL_V2),
    "unguarded-code": lambda f: native(f, compiled(f.parent / "sources", MODULE), LEVEL_V2),
    "unreadable-binary": lambda f: native(f, elf_file()[:100]),
    "no-plain-wheel": variant,
    "no-index-file": variant,
    "duplicate-index-file": two_index_files,
    "misspelt-index-file": lambda f: write(f / "Fast-1.0-variants.json", DOCUMENT),
    "claims-disagree": disagreeing,
    "label-not-in-index": lambda f: (
        sound_release(f),
        write(f / INDEX_FILE, document(lambda d: variants(d).pop("mkl"))),
    ),
    "label-without-wheel": lambda f: (sound_release(f) / "fast-1.0-py3-none-any-mkl.whl").unlink(),
    "inconsistent-release": contradicting,
    "forbidden-attribute": lambda f: listed(f, 'data-requires-python="&gt;=3"'),
    "no-hash": lambda f: listed(f, "", ""),
    "wrong-hash": lambda f: listed(f, "", "0" * 64),
    "missing-file": lambda f: page(f, '<a href="a-1-py3-none-any.whl">a-1-py3-none-any.whl</a>'),
    "strange-entry": lambda f: page(f, '<a href="ftp://x/a-1-py3-none-any.whl">a</a>'),
    "uv-null": lambda f: (
        sound_release(f),
        write(f / INDEX_FILE, document(lambda d: variants(d).pop("null"))),
    ),
    "uv-index-file": lambda f: write(f / "Fast-1.0-variants.json", DOCUMENT),
    "uv-python": lambda f: (sound_release(f), variant(f, requires_python=">=3.12")),
    "uv-markers": lambda f: plain(f, requires=['a; "nvidia" in variant_namespaces']),
    "pypi-variant-wheel": variant,
    "pypi-index-file": sound_release,
    "pypi-file-size": lambda f: build_large_wheel(f, "fast", "1.0", 100_000_001),
    "pypi-platform": lambda f: plain(f, tag="cp313-cp313-linux_x86_64"),
    "pypi-archive": lambda f: respelt(plain(f)),
}

# What cannot be shown with files of this machine is tested where the rest of it is.
ELSEWHERE = {
    "long-filename",  # no folder can hold such a file
    "metadata-differs",
    "no-known-machine",  # these five are looked for in whole indexes only
    "shadowed-variant",
    "strange-answer",
    "unhashed-files",
    "unmet-pin",
    "pypi-closed-release",
    "pypi-project-size",
}


def test_each_check_has_a_case() -> None:
    """F-131: there is no check that nobody has seen at work."""
    assert set(CHECKS) == {*DOCUMENTS, *FOLDERS, *ELSEWHERE}
    assert {check.code for check in DOCUMENT_CHECKS.values()} <= set(DOCUMENTS) | set(FOLDERS)


@pytest.mark.parametrize("profiles", ["", "uv", "pypi", "conda-forge internal"])
def test_a_sound_release_has_no_findings(tmp_path: Path, profiles: str) -> None:
    """F-131, F-155: nothing is found in a release that follows every rule."""
    report = check(sound_release(tmp_path), full=True, profiles=profiles)
    refused = {"pypi-variant-wheel": 3, "pypi-index-file": 1} if profiles == "pypi" else {}
    assert codes(report) == refused
    assert not report.unchecked
    assert (report.counts.wheels, report.counts.index_files, report.counts.releases) == (4, 1, 1)


def profiles_of(code: str) -> str:
    """Return the profile that a check belongs to."""
    return code.partition("-")[0] if code.startswith(("uv-", "pypi-")) else ""


def needs_data(code: str) -> None:
    """Skip a test that needs lists of classifiers or of symbols, where they are not installed."""
    if code.endswith("-classifier"):
        pytest.importorskip("trove_classifiers")
    if code == "outside-stable-abi":
        pytest.importorskip("abi3info")


@pytest.mark.parametrize("code", DOCUMENTS)
def test_documents(tmp_path: Path, code: str) -> None:
    """F-131: each fault of a document is found, with rule, severity, place and line."""
    path = write(tmp_path / INDEX_FILE, document(DOCUMENTS[code]))
    report = check(path, profiles=profiles_of(code))
    found = [finding for finding in report.findings if finding.code == code]
    assert found, codes(report)
    for finding in found:
        assert finding.severity is CHECKS[code].severity
        assert finding.where == str(path)
        assert finding.line is not None
        assert finding.remedy
    if not profiles_of(code):  # without profiles nobody asks for what only a tool wants
        assert not [
            finding for finding in check(path).findings if finding.code.startswith(("uv", "pypi"))
        ]


@pytest.mark.parametrize("code", FOLDERS)
def test_folders(tmp_path: Path, code: str) -> None:
    """F-131: each fault of wheels, releases and pages is found, with rule and severity."""
    needs_data(code)
    folder = tmp_path / "dist"
    folder.mkdir()
    FOLDERS[code](folder)
    large = code == "pypi-file-size"
    report = check(
        folder,
        full=not large,
        binaries=not large,
        instructions=not large,
        profiles=profiles_of(code),
    )
    found = [finding for finding in report.findings if finding.code == code]
    assert found, codes(report)
    assert {one.severity for one in found} <= {CHECKS[code].severity, Severity.ERROR}
    assert all(one.where.startswith(str(folder)) for one in found)
    assert not report.unchecked


@pytest.mark.parametrize("what", BROKEN)
def test_broken_wheels(tmp_path: Path, what: str) -> None:
    """B-34, F-15, B-60: what is broken in a wheel is found by its code."""
    code, spoil = BROKEN[what]
    needs_data(code)
    spoil(tmp_path)
    assert code in codes(check(tmp_path, full=True, binaries=True))


# --- elsewhere ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "severity"),
    [
        ("py3-none-any", Severity.WARNING),
        ("py3-none-manylinux_2_28_x86_64", Severity.WARNING),
        ("py3-none-any.win_amd64", Severity.WARNING),
        ("py3-none-win_amd64", Severity.ERROR),
        ("py3-none-win32.win_amd64", Severity.ERROR),
    ],
)
def test_unportable_names(tmp_path: Path, tag: str, severity: Severity) -> None:
    """B-34: names that Windows cannot have are wrong in wheels for Windows alone."""
    files = {"fast/aux.py": "", "fast/a.py": "", "fast/A.py": ""}
    path = plain(tmp_path, tag=tag, files=files)
    findings, _ = check_wheel(path, path.name, where=path.name)
    unportable = [finding for finding in findings if finding.code == "unportable-name"]
    assert [one.severity for one in unportable] == [severity, severity]
    assert not [finding for finding in findings if finding.code == "unsound-archive"]


def test_long_filename() -> None:
    """F-3: a file name that no folder can hold is found before anybody tries."""
    name = f"fast-1.0-py3-none-any-{'l' * 230}.whl"
    findings, facts = check_wheel(io.BytesIO(b""), name, where=name)
    assert "long-filename" in [finding.code for finding in findings]
    assert facts is not None


def test_profiles_are_named() -> None:
    """F-155: the profiles are those of the command line."""
    assert [str(profile) for profile in Profile] == ["uv", "pypi", "conda-forge", "internal"]
