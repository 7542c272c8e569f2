"""Draw releases with variants, write them into folders, and serve them."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from packaging.tags import sys_tags

from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import Request, Response
from wheelfit.sources.page import File
from wheelfit.testing.wheels import SCHEMA, build_wheel

VERSION = "1.0"
"""Version of every release that is drawn."""
FALLBACK = "0.1"
"""Version of the plain wheel that is left when nothing of the release will do."""

NAMESPACES = ["blas", "gpu", "n_0", "openmp", "prio"]
FEATURES = ["arch", "kind", "level", "lower_bound", "x"]
VALUES = ["1", "10", "2", "2.0", "80_real", "mkl", "v1", "v2", "v3"]
LABEL_CHARACTERS = "abz019._"
# F-14: "2" and "02" are one number, "2a" is more.
BUILDS = [None, None, None, "1", "2", "02", "10", "2a", "2_b"]

# P-61: spelled such that uv recognises them.
PROVIDERS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "aarch64": [{"requires": ["aarch64-variant-provider>=0.2"]}],
    "nvidia": [
        {
            "requires": ["nvidia-variant-provider>=0.0.1,<1"],
            "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
        },
    ],
    "x86_64": [
        {"requires": ["x86-64-variant-provider<1"]},
        {"requires": ["X86.64_variant-Provider >= 0.2, != 0.2.0"]},
        {"requires": ["x86-64-variant-provider"], "plugin-api": "x86_64_variant_provider"},
    ],
}
VOCABULARY: Mapping[str, Mapping[str, Sequence[str]]] = {
    "aarch64": {"version": ["8a", "8.1a", "8.2a", "8.3a", "8.4a"]},
    "nvidia": {
        "cuda_version_lower_bound": ["11", "11.8", "12", "12.0", "12.4", "12.8", "12.9", "13.0"],
        "cuda_version_upper_bound": ["12", "12.4", "13", "13.1", "14", "15.20"],
        "sm_arch": [
            "70_real", "75_virtual", "80_real", "80_virtual", "86_real", "86_virtual",
            "89_real", "90_real", "90_virtual", "90a_real", "120_real", "120_virtual",
        ],
    },
    "x86_64": {
        "level": ["v1", "v2", "v3", "v4"], "avx2": ["on"], "avx512f": ["on"], "sse4_2": ["on"],
    },
}  # fmt: skip
# P-14, P-50: namespaces that support nothing, here and in uv.
STRANGE: Sequence[Mapping[str, Any]] = [
    {"requires": ["some-provider"]},
    {"requires": ["some-provider>=2", "other; python_version > '3'"], "plugin-api": "some.plug:in"},
    {"builtin": "abi_dependency"},
    {"builtin": "something_else"},
]

# Most machines have one kind of CPU, so that every label of another is refused.
HARDWARE = [["nvidia"], ["x86_64"], ["nvidia", "x86_64"], ["nvidia", "x86_64", "aarch64"]]

Draw = Callable[[random.Random, str], "Release"]


@dataclass(frozen=True, slots=True)
class Wheel:
    """Hold what tells one wheel of a release from the others."""

    filename: str
    """Its name."""
    label: str | None
    """Variant label; None for a plain wheel."""
    tag: str
    """Compressed tag set."""
    build: str | None
    """Build tag."""
    yanked: bool
    """Whether the page says so."""


@dataclass(frozen=True, slots=True)
class Release:
    """Hold one release: what its index file and its wheels say, and the wheels."""

    name: str
    """Of the project; letters and digits only."""
    index: Mapping[str, Any]
    """The index file, as JSON."""
    document: Mapping[str, Any]
    """What the wheels are cut from, as JSON; has every label."""
    wheels: tuple[Wheel, ...]
    """In any order."""

    def wheel(self, filename: str) -> Wheel:
        """Return the wheel of this name."""
        return next(wheel for wheel in self.wheels if wheel.filename == filename)


class Shelves:
    """Serve each project from a folder of its own: an `Application`.

    :param folder: where those folders are. A file may vanish while it is served.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._indexes: dict[str, FolderIndex] = {}
        self._yanked: set[str] = set()

    def add(self, release: Release) -> None:
        """Write a release and serve it from now on."""
        write(self.shelf(release.name), release)
        self._yanked.update(wheel.filename for wheel in release.wheels if wheel.yanked)

    def shelf(self, name: str) -> Path:
        """Return the folder of a project, which is served from now on."""
        if name not in self._indexes:
            self._indexes[name] = FolderIndex(self._folder / name, edit_entry=self._revise)
        return self._folder / name

    def remove(self, name: str, filename: str) -> None:
        """Take a wheel out of a release; the index file still knows its label."""
        (self._folder / name / filename).unlink()

    def __call__(self, request: Request) -> Response:
        """Answer a request for ``/simple/{project}/`` or ``/files/{file}``."""
        index = self._indexes.get(request.path.split("/")[2].split("-")[0])
        return Response.text(404, "the project does not exist") if index is None else index(request)

    def _revise(self, file: File) -> File:
        return replace(file, yanked="not good") if file.filename in self._yanked else file


def write(folder: Path, release: Release) -> None:
    """Write the wheels of a release, its index file and the fallback.

    Each wheel installs a file ``{name}/filename`` that holds the name of the wheel, so
    that nobody has to be asked what was chosen.
    """
    member = f"{release.name}/filename"
    for wheel in release.wheels:
        path = build_wheel(
            folder,
            release.name,
            VERSION,
            label=wheel.label,
            document=None if wheel.label is None else release.document,
            tag=wheel.tag,
            build=wheel.build,
            files={member: wheel.filename},
        )
        assert path.name == wheel.filename
    fallback = f"{release.name}-{FALLBACK}-py3-none-any.whl"
    build_wheel(folder, release.name, FALLBACK, files={member: fallback})
    text = json.dumps(release.index)
    (folder / f"{release.name}-{VERSION}-variants.json").write_text(text, encoding="utf-8")


def some(draw: random.Random, source: Sequence[str], most: int) -> list[str]:
    """Draw at least one of some texts, in any order."""
    return draw.sample(list(source), draw.randint(1, min(most, len(source))))


def draw_static(draw: random.Random, name: str) -> Release:
    """Draw a release whose properties are listed in its document, best first."""
    namespaces = some(draw, NAMESPACES, 3)
    providers: dict[str, Any] = {namespace: _static(draw) for namespace in namespaces}
    if draw.random() < 0.2:
        providers["odd"] = dict(draw.choice(STRANGE))
        namespaces.insert(draw.randint(0, len(namespaces)), "odd")
    if draw.random() < 0.1:
        providers[draw.choice(namespaces)]["optional"] = True  # P-10: nobody enables it
    return _release(draw, name, namespaces, providers)


def draw_hardware(draw: random.Random, name: str) -> Release:
    """Draw a release whose properties are those of hardware, with a static list or without."""
    namespaces = some(draw, draw.choice(HARDWARE), 3)
    providers: dict[str, Any] = {
        namespace: dict(draw.choice(PROVIDERS[namespace])) for namespace in namespaces
    }
    if draw.random() < 0.4:
        providers["prio"] = _static(draw)
        namespaces.insert(draw.randint(0, len(namespaces)), "prio")
    return _release(draw, name, namespaces, providers)


def fitting_tags() -> list[str]:
    """Return the tags that fit the running interpreter, best first, without ``linux_*``.

    F-68: pip ranks a wheel tagged ``linux_*`` above manylinux wheels, uv below them; a
    test of its own holds that.
    """
    tags = (str(tag) for tag in sys_tags() if not tag.platform.startswith("linux_"))
    # Of other systems it is not known whether uv and packaging agree on every tag.
    return [tag for tag in tags if sys.platform == "linux" or tag.endswith("-any")]


def _release(
    draw: random.Random, name: str, namespaces: list[str], providers: Mapping[str, Any]
) -> Release:
    """Draw the labels and wheels of a release."""
    variants: dict[str, Any] = {}
    for _ in range(draw.randint(0, 6)):
        variants[_label(draw)] = _properties(draw, namespaces, providers)
    if len(variants) > 1 and draw.random() < 0.3:
        first, second, *_ = variants
        variants[second] = variants[first]  # only the label decides
    if variants and draw.random() < 0.05:
        variants[next(iter(variants))] = {}  # F-7
    if draw.random() < 0.5:
        variants["null"] = {}
    document = {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": namespaces},
        "providers": providers,
        "variants": variants,
    }
    # F-76: a label that the index file lacks is ignored. F-26: null is not.
    listed = {label: one for label, one in variants.items() if draw.random() >= 0.06}
    labels: list[str | None] = list(variants)
    if not variants or draw.random() < 0.6:
        labels.append(None)
    # Few, so that wheels of one label are alike in tags, in build number, or in both.
    tags, builds = [_tag(draw) for _ in range(4)], draw.sample(BUILDS, 3)
    wheels = {
        wheel.filename: wheel
        for label in labels
        for wheel in (_wheel(draw, name, label, tags, builds) for _ in range(draw.randint(1, 3)))
    }
    shuffled = draw.sample([*wheels.values()], len(wheels))
    return Release(name, {**document, "variants": listed}, document, tuple(shuffled))


def _static(draw: random.Random) -> dict[str, Any]:
    """Draw a provider with a static list (P-3, P-5)."""
    features = some(draw, FEATURES, 3)
    entry: dict[str, Any] = {
        "static-properties": {feature: some(draw, VALUES, 5) for feature in features}
    }
    if len(features) > 1 or draw.random() < 0.3:
        entry["feature-order"] = draw.sample(features, len(features))
    return entry


def _label(draw: random.Random) -> str:
    """Draw a label, now and then one that old tools would find too long (F-3)."""
    length = draw.randint(17, 30) if draw.random() < 0.05 else draw.randint(1, 4)
    return "".join(draw.choices(LABEL_CHARACTERS, k=length))


def _properties(
    draw: random.Random, namespaces: Sequence[str], providers: Mapping[str, Any]
) -> dict[str, dict[str, list[str]]]:
    """Draw the properties of a label, mostly of values that somebody lists."""
    properties: dict[str, dict[str, list[str]]] = {}
    for namespace in some(draw, namespaces, len(namespaces)):
        lists = providers[namespace].get("static-properties") or VOCABULARY.get(namespace)
        if lists is None:
            if draw.random() < 0.5:
                properties[namespace] = {"x": ["1"]}
            continue
        chosen: dict[str, list[str]] = {}
        for feature in some(draw, list(lists), len(lists)):
            source = VALUES if draw.random() < 0.1 else lists[feature]
            chosen[feature] = sorted(some(draw, source, 3))
        properties[namespace] = chosen
    return properties


def _wheel(
    draw: random.Random,
    name: str,
    label: str | None,
    tags: Sequence[str],
    builds: Sequence[str | None],
) -> Wheel:
    """Draw a wheel of a label."""
    tag, build = draw.choice(tags), draw.choice(builds)
    parts = [name, VERSION, build, tag, label]
    return Wheel(
        filename="-".join(part for part in parts if part is not None) + ".whl",
        label=label,
        tag=tag,
        build=build,
        yanked=draw.random() < 0.04,
    )


def _tag(draw: random.Random) -> str:
    """Draw a tag set; most fit."""
    fitting = fitting_tags()
    kind = draw.random()
    if kind < 0.4:
        return draw.choice(["py3-none-any", "py2.py3-none-any"])
    if kind < 0.5:
        return draw.choice(["cp27-cp27mu-manylinux1_x86_64", "py3-none-win_arm64", "py2-none-any"])
    if kind < 0.6:
        return draw.choice([tag for tag in fitting if tag.endswith("-any")])
    python, abi, platform = draw.choice(fitting).split("-")
    if draw.random() < 0.2:
        platform = f"{platform}.win_amd64"
    return f"{python}-{abi}-{platform}"
