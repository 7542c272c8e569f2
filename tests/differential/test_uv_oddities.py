"""Releases with something odd, one by one: what wheelfit and uv 0.13.8 install of them.

Every release has three wheels and an older one that is plain: ``better`` needs
``blas :: library :: openblas``, which its own list supports, ``null`` needs nothing, ``plain``
has no label. What is said of uv is what it was seen to do; where that is something else than
what wheelfit does, the rule says why wheelfit does not follow.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from differential.releases import PROVIDERS, Shelves
from differential.side_by_side import FORCED_CAPABILITY, FORCED_DRIVER, Tools
from packaging.tags import sys_tags

from wheelfit.building.index_file import write_index_files
from wheelfit.building.variant_wheel import repack_wheel
from wheelfit.core.labels import parse_label
from wheelfit.core.metadata import read_document
from wheelfit.testing.index import Faults, RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

pytestmark = pytest.mark.network

HOST = "https://variants-schema.wheelnext.dev"
SOUND: dict[str, Any] = release_document(
    {"better": {"blas": {"library": ["openblas"]}}, "null": {}},
    static={"blas": {"library": ["openblas", "mkl"]}},
)
(NVIDIA,) = PROVIDERS["nvidia"]


def with_parts(**parts: object) -> dict[str, object]:
    """Return the sound document with other parts; ``schema`` stands for ``$schema``."""
    names = {"schema": "$schema", "priorities": "default-priorities"}
    return {**SOUND, **{names.get(name, name): value for name, value in parts.items()}}


def with_better(properties: object) -> dict[str, object]:
    """Return the sound document with other properties of the label ``better``."""
    return with_parts(variants={"better": properties, "null": {}})


def with_provider(provider: object) -> dict[str, object]:
    """Return the sound document with another provider."""
    return with_parts(providers={"blas": provider})


def on_nvidia(
    properties: Mapping[str, Sequence[str]] | None = None, **changes: object
) -> dict[str, object]:
    """Return a document whose label ``better`` needs an NVIDIA GPU."""
    wanted = properties or {"cuda_version_lower_bound": ["12.0"]}
    changed = {name.replace("_", "-"): value for name, value in changes.items()}
    return release_document(
        {"better": {"nvidia": wanted}, "null": {}}, providers={"nvidia": {**NVIDIA, **changed}}
    )


def without_providers(document: Mapping[str, object]) -> dict[str, object]:
    """Return a document in the layout of PEP 825, which has no providers."""
    left = {name: value for name, value in document.items() if name != "providers"}
    return {**left, "$schema": f"{HOST}/peps/825/v0.1.1.json"}


@dataclass(frozen=True, slots=True)
class Odd:
    """Hold one release and what becomes of it."""

    what: str
    """What is odd."""
    rule: str
    """What wheelfit follows."""
    ours: str
    """What wheelfit installs: ``better``, ``null``, ``plain`` or ``older``."""
    uv: str
    """What uv installs, or a part of its error."""
    index: Mapping[str, object] | str | None = field(default_factory=lambda: SOUND)
    """The index file, as JSON, or its text; None for no index file."""
    wheels: Mapping[str, object] | None = None
    """What the wheels are cut from; default: the index file, or what is sound."""
    better: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `build_wheel` for the label ``better``."""


NOT_IN_BETTER = "Wheel variant `better` requires unsupported properties"

ODD = [
    Odd("nothing", "F-90", "better", "better"),
    # The schema: uv looks at keys only.
    Odd("another major version", "F-36", "plain", "better",
        index=with_parts(schema=f"{HOST}/peps/850/v9.0.0.json")),
    Odd("a foreign schema", "F-40", "plain", "better",
        index=with_parts(schema="https://schemas.example/peps/850/v0.2.0.json")),
    Odd("the schema without a PEP", "F-45", "better", "better",
        index=with_parts(schema=f"{HOST}/v0.2.0.json")),
    Odd("no schema", "F-46", "better", "older",
        index={name: part for name, part in SOUND.items() if name != "$schema"}),
    Odd("layout L2", "F-48", "better", "older", wheels=SOUND, index={
        "$schema": f"{HOST}/v0.0.2.json",
        "default-priorities": {
            "namespace": ["blas"], "property": {"blas": {"library": ["openblas"]}},
        },
        "providers": {"blas": {"requires": [], "plugin-use": "none"}},
        "variants": SOUND["variants"],
    }),
    Odd("layout L3", "F-48", "better", "older", wheels=SOUND, index={
        "$schema": f"{HOST}/v0.0.3.json",
        "default-priorities": {"namespace": ["blas"]},
        "providers": {"blas": {"install-time": False}},
        "static-properties": {"blas": {"library": ["openblas"]}},
        "variants": SOUND["variants"],
    }),
    Odd("providers under the schema of PEP 825", "F-42", "better", "better",
        index=with_parts(schema=f"{HOST}/peps/825/v0.1.1.json")),
    Odd("no providers", "F-39", "null", "null", index=without_providers(SOUND)),
    # Faults: uv loses the whole release, its plain wheel too.
    Odd("not JSON", "F-130", "plain", "older", index="{"),
    Odd("a byte order mark", "F-30", "plain", "older", index="\ufeff" + json.dumps(SOUND)),
    Odd("a key twice", "F-30", "plain", "older", index='{"variants": {}, ' + json.dumps(SOUND)[1:]),
    Odd("not a number", "F-30", "plain", "older", index='{"x": NaN, ' + json.dumps(SOUND)[1:]),
    Odd("priorities of another type", "F-130", "plain", "older",
        index=with_parts(priorities=["blas"]), wheels=SOUND),
    Odd("an unknown key at the top", "F-130", "better", "older",
        index=with_parts(extra=1), wheels=SOUND),
    Odd("an unknown key of a provider", "F-130", "null", "older", wheels=SOUND,
        index=with_provider({"static-properties": {"library": ["openblas"]}, "extra": 1})),
    Odd("a provider of two kinds", "P-1", "null", "older", wheels=SOUND, index=with_provider(
        {"static-properties": {"library": ["openblas"]}, "requires": ["blas"]})),
    Odd("a provider of no kind", "P-1", "null", "older", wheels=SOUND, index=with_provider({})),
    Odd("two features without an order", "P-5", "null", "older", wheels=SOUND,
        index=with_provider({"static-properties": {"library": ["openblas"], "x": ["1"]}})),
    Odd("a namespace without a provider", "F-130", "better", "older", wheels=SOUND,
        index=with_parts(priorities={"namespace": ["blas", "other"]})),
    Odd("a value twice", "F-130", "null", "older", wheels=SOUND,
        index=with_better({"blas": {"library": ["openblas", "openblas"]}})),
    Odd("no values", "F-130", "null", "older", wheels=SOUND,
        index=with_better({"blas": {"library": []}})),
    Odd("a feature in upper case", "F-130", "null", "older", wheels=SOUND,
        index=with_better({"blas": {"Library": ["openblas"]}})),
    Odd("a namespace that is not among the priorities", "F-130", "null", "older", wheels=SOUND,
        index=with_better({"other": {"x": ["1"]}})),
    Odd("another label in upper case", "F-130", "better", "older", wheels=SOUND,
        index=with_parts(variants={**SOUND["variants"], "V3": {}})),
    Odd("null with properties", "F-130", "better", "older", wheels=SOUND, index=with_parts(
        variants={**SOUND["variants"], "null": {"blas": {"library": ["mkl"]}}})),
    # What looks odd, but is allowed.
    Odd("values out of order", "F-23", "better", "better",
        index=with_better({"blas": {"library": ["openblas", "mkl"]}})),
    Odd("a namespace without features", "F-25", "better", "better",
        index=with_better({"blas": {"library": ["openblas"]}, "other": {}})),
    Odd("an empty list", "P-3", "null", "null",
        index=with_provider({"static-properties": {"library": []}})),
    Odd("no features", "P-3", "null", "null", index=with_provider({"static-properties": {}})),
    Odd("a version spelled differently", "F-78", "better", "better", better={"version": "1"}),
    # The wheels.
    Odd("no index file", "F-77", "better", "plain", index=None),
    Odd("null is missing in the index file", "F-26", "null", "plain",
        index=with_parts(variants={})),
    Odd("better is for an older Python", "F-94", "null", "better",
        better={"requires_python": "<3"}),
    Odd("better is for a newer Python", "F-94", "null", "older",
        better={"requires_python": ">=3.99"}),
    Odd("dependencies depend on the variant", "F-101", "better", "older",
        better={"requires": ['absent; "other" in variant_namespaces']}),
    Odd("the wheel has other supported properties", "F-93", "null", "better",
        wheels=with_better({"blas": {"library": ["mkl"]}})),
    Odd("the wheel has unsupported properties", "F-93", "null", NOT_IN_BETTER,
        wheels=with_better({"blas": {"library": ["atlas"]}})),
    Odd("the wheel has no providers", "F-152", "better", NOT_IN_BETTER,
        wheels=without_providers(SOUND)),
    # Providers that both know. Here: CUDA 12.8, compute capability 9.0.
    Odd("an NVIDIA GPU", "P-60", "better", "better", index=on_nvidia()),
    Odd("versions without the one that uv has", "P-62", "better", "null",
        index=on_nvidia(requires=["nvidia-variant-provider>=0.0.2,<1.0.0"])),
    Odd("a marker that is true", "P-62", "better", "null",
        index=on_nvidia(requires=["nvidia-variant-provider; python_version > '3'"])),
    Odd("a requirement that goes away", "P-62", "better", "null",
        index=on_nvidia(requires=["nvidia-variant-provider", "other; python_version < '3'"])),
    Odd("blanks in the object reference", "P-62", "better", "null",
        index=on_nvidia(plugin_api="nvidia_variant_provider.plugin : NvidiaVariantPlugin")),
    Odd("another object reference", "P-63", "null", "null", index=on_nvidia(plugin_api="other:x")),
    Odd("an extra", "P-62", "null", "null",
        index=on_nvidia(requires=["nvidia-variant-provider[extra]"])),
    Odd("optional", "P-10", "null", "null", index=on_nvidia(optional=True)),
    Odd("PTX for an older GPU", "P-83", "better", "null",
        index=on_nvidia({"sm_arch": ["80_virtual"]})),
    Odd("code for this GPU only", "P-83", "better", "null",
        index=on_nvidia({"sm_arch": ["90a_real"]})),
    Odd("code for an older major version", "P-83", "null", "null",
        index=on_nvidia({"sm_arch": ["80_real"]})),
]  # fmt: skip


def put(shelves: Shelves, name: str, odd: Odd) -> None:
    """Write an odd release as a project."""
    folder = shelves.shelf(name)
    wheels = odd.wheels or (odd.index if isinstance(odd.index, Mapping) else SOUND)
    if not wheels["variants"]:
        wheels = SOUND

    def build(content: str, **arguments: Any) -> None:
        files = {f"{name}/filename": content}
        build_wheel(folder, name, **{"version": "1.0", "files": files, **arguments})

    build("better", label="better", document=wheels, **odd.better)
    build("null", label="null", document=wheels)
    build("plain")
    build("older", version="0.1")
    if odd.index is not None:
        text = odd.index if isinstance(odd.index, str) else json.dumps(odd.index)
        (folder / f"{name}-1.0-variants.json").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def installed(uv: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Let both tools install every release: what is odd, to ours and theirs."""
    folder = tmp_path_factory.mktemp("odd")
    shelves = Shelves(folder / "shelves")
    names = {f"p{number}": odd for number, odd in enumerate(ODD)}
    for name, odd in names.items():
        put(shelves, name, odd)
    # One release that cannot be installed takes all others with it.
    alone = [name for name, odd in names.items() if odd.uv == NOT_IN_BETTER]
    together = [name for name in names if name not in alone]
    with RecordingIndex(shelves) as index:
        forced = {FORCED_DRIVER: "12.8", FORCED_CAPABILITY: "9.0"}
        tools = Tools(uv, folder, index.url, forced)
        ours = tools.install(*names)
        theirs = tools.uv_install(*together)
        for name in alone:
            theirs |= tools.uv_install(name)
    return {odd.what: (ours[name], theirs[name]) for name, odd in names.items()}


class TestOddReleases:
    """F-130: what is odd costs as little as possible; uv is not asked for more than it can."""

    @pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.what)
    def test_both_are_known(self, installed: dict[str, tuple[str, str]], odd: Odd) -> None:
        """F-90, F-130: wheelfit follows the rule that is cited, and uv does what is said."""
        ours, theirs = installed[odd.what]
        assert ours == odd.ours, odd.rule
        assert (NOT_IN_BETTER if NOT_IN_BETTER in theirs else theirs) == odd.uv


class TestFaultyIndex:
    """F-79: an index file that cannot be had costs the variants, not the plain wheel."""

    @pytest.mark.parametrize(
        ("faults", "says"),
        [
            (Faults(status={"faulty-1.0-variants.json": 404}), "404"),
            (Faults(wrong_hash={"faulty-1.0-variants.json"}), "Hash mismatch"),
        ],
        ids=["missing", "another hash"],
    )
    def test_uv_gives_up(self, uv: Path, tmp_path: Path, faults: Faults, says: str) -> None:
        """F-79: wheelfit takes the plain wheel."""
        shelves = Shelves(tmp_path)
        put(shelves, "faulty", Odd("the index", "F-79", "plain", says))
        with RecordingIndex(tmp_path / "faulty", faults=faults) as index:
            tools = Tools(uv, tmp_path, index.url)
            assert tools.install("faulty") == {"faulty": "plain"}
            assert says in tools.uv_install("faulty")["faulty"]


class TestForcedDrivers:
    """P-84: drivers outside of what the reference knows."""

    @pytest.mark.parametrize(
        ("driver", "wanted", "ours", "theirs"),
        [
            # Lower than anything: every upper bound holds, and yet no CUDA of interest runs.
            ("10.2", {"cuda_version_upper_bound": ["12"]}, "null", "better"),
            ("10.2", {"cuda_version_lower_bound": ["11"]}, "null", "null"),
            ("16.3", {"cuda_version_lower_bound": ["12.8"]}, "better", "better"),
            ("16.3", {"cuda_version_lower_bound": ["16.1"]}, "better", "better"),
            ("16.3", {"cuda_version_upper_bound": ["16.4"]}, "better", "null"),
            ("high", {"cuda_version_lower_bound": ["12.0"]}, "null", "null"),
        ],
    )
    def test_range(
        self,
        uv: Path,
        tmp_path: Path,
        *,
        driver: str,
        wanted: Mapping[str, Sequence[str]],
        ours: str,
        theirs: str,
    ) -> None:
        """P-73, P-84: wheelfit has more majors above, and nothing below 11.0."""
        shelves = Shelves(tmp_path)
        put(shelves, "forced", Odd("the driver", "P-84", ours, theirs, index=on_nvidia(wanted)))
        with RecordingIndex(shelves) as index:
            tools = Tools(uv, tmp_path, index.url, {FORCED_DRIVER: driver})
            assert tools.install("forced") == {"forced": ours}
            assert tools.uv_install("forced") == {"forced": theirs}


@pytest.mark.skipif(sys.platform != "linux", reason="such tags fit Linux only")
def test_wheels_of_the_machine(uv: Path, tmp_path: Path) -> None:
    """F-68: a ``linux_*`` tag comes first, as in pip; uv puts it below manylinux."""
    folder = tmp_path / "index"
    fitting = [str(tag) for tag in sys_tags() if "linux_" in tag.platform]
    names = [next(tag for tag in fitting if part in tag) for part in ("-linux_", "-manylinux_")]
    for tag in names:
        build_wheel(folder, "tagged", "1", tag=tag, files={"tagged/filename": tag})
    with RecordingIndex(folder) as index:
        tools = Tools(uv, tmp_path, index.url)
        assert tools.install("tagged") == {"tagged": names[0]}
        assert tools.uv_install("tagged") == {"tagged": names[1]}


def test_uv_takes_what_wheelfit_makes(uv: Path, tmp_path: Path) -> None:
    """Wheels and index files that wheelfit makes serve uv (F-150, F-151, F-152, F-153, P-61)."""
    variants = {
        "null": {},
        "cpu": {"x86_64": {"level": ["v1"]}},
        "mkl": {"blas": {"library": ["mkl"]}},
        "cu12": {"blas": {"library": ["mkl"]}, "nvidia": {"cuda_version_lower_bound": ["12"]}},
    }
    data = release_document(
        variants,
        static={"blas": {"threads": ["many"], "library": ["openblas", "mkl"]}},
        providers={name: PROVIDERS[name][0] for name in ("nvidia", "x86_64")},
        namespaces=["nvidia", "blas", "x86_64"],
    )
    document = read_document(data, where="a test")
    folder = tmp_path / "made"
    folder.mkdir()
    for label in variants:
        files = {"made/filename": label}
        plain = build_wheel(tmp_path / f"plain {label}", "made", "1.0", files=files)
        repack_wheel(plain, folder, label=parse_label(label), document=document)
    write_index_files(folder)
    with RecordingIndex(folder) as index:
        for driver, label in (("12.8", "cu12"), ("", "mkl")):
            tools = Tools(uv, tmp_path, index.url, {FORCED_DRIVER: driver})
            assert tools.install("made") == tools.uv_install("made") == {"made": label}
