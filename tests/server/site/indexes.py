"""Indexes in memory, with unusual content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.utils import NormalizedName

from wheelfit.sources.file_readers import ContentFiles
from wheelfit.sources.page import File, ProjectPage
from wheelfit.sources.repository import Content, content_of, url_of
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit.wheels.archive import WheelArchive

DOCUMENT = release_document(
    {
        "cu128": {
            "nvidia": {"cuda_version_lower_bound": ["12.8"], "sm_arch": ["80_real", "90_real"]}
        },
        "cu126": {"nvidia": {"cuda_version_lower_bound": ["12.6"]}},
        "v3": {"x86_64": {"level": ["v3"]}},
        "null": {},
    },
    providers={
        "nvidia": {
            "requires": ["nvidia-variant-provider>=0.0.1"],
            "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
        },
        "x86_64": {
            "requires": ["provider-variant-x86-64"],
            "plugin-api": "provider_variant_x86_64:X8664Plugin",
        },
    },
)


README = """\
# Fast FFT

Transforms *quickly*, on processors and GPUs; see [the manual](https://fft.example.org/).

## Use

```python
from fast_fft import fft

fft([1.0, 2.0, 3.0])
```

> Measured once.
"""


class MemoryIndex(ContentFiles):
    """An `Index` in memory."""

    name = "this index"

    def __init__(self, *, stamped: bool = False) -> None:
        self.pages: dict[str, tuple[File, ...]] = {}
        self.contents: dict[str, Content] = {}
        self.stamped = stamped
        self.error: Exception | None = None
        """What every question raises."""
        self.noted: Callable[[str], None] = lambda _name: None
        """Called with the name of each project that is asked for."""

    def add(self, name: str, *files: File) -> None:
        """Add files of a project."""
        self.pages[name] = (*self.pages.get(name, ()), *files)

    def add_wheel(self, path: Path, **more: object) -> File:
        """Add a wheel with its bytes."""
        data = path.read_bytes()
        with WheelArchive(path) as wheel:
            metadata = wheel.metadata()
            name = wheel.filename.name
        self.contents[path.name] = content_of(data)
        self.contents[f"{path.name}.metadata"] = content_of(metadata)
        file = File(
            path.name,
            url_of(path.name),
            {"sha256": hashlib.sha256(data).hexdigest()},
            size=len(data),
            metadata_hashes={"sha256": hashlib.sha256(metadata).hexdigest()},
            **more,  # type: ignore[arg-type]
        )
        self.add(name, file)
        return file

    def add_document(
        self, name: str, filename: str, document: Mapping[str, object] | bytes
    ) -> None:
        """Add the variants document of a release."""
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.contents[filename] = content_of(data)
        digest = hashlib.sha256(data).hexdigest()
        self.add(name, File(filename, url_of(filename), {"sha256": digest}, size=len(data)))

    def projects(self) -> Iterable[NormalizedName]:
        """Return the names as they were added."""
        self._answer()
        return tuple(NormalizedName(name) for name in sorted(self.pages))

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project."""
        self._answer()
        self.noted(name)
        files = self.pages.get(name)
        return None if files is None else ProjectPage(name, files, "this index")

    def stamp(self, name: NormalizedName) -> Hashable | None:
        """Return the number of files, if pages are stamped."""
        return len(self.pages.get(name, ())) if self.stamped else None

    def content(self, filename: str) -> Content | None:
        """Return the bytes of a file."""
        self._answer()
        return self.contents.get(filename)

    def _answer(self) -> None:
        if self.error is not None:
            raise self.error


def fast_fft(folder: Path) -> MemoryIndex:
    """Return an index of a project with variants, a yanked release and attestations."""
    index = MemoryIndex(stamped=True)
    about: dict[str, Any] = {
        "requires_python": ">=3.11",
        "requires": ["numpy>=2"],
        "description": README,
        "metadata_extra": [
            ("Summary", "Fast Fourier transforms on processors and GPUs"),
            ("Description-Content-Type", "text/markdown"),
            ("Author", "Jane Doe"),
            ("License-Expression", "MIT"),
            ("Project-URL", "Documentation, https://example.org/docs"),
        ],
    }
    for label in ("cu128", "cu126", "v3", "null", None):
        for tag in ("cp312-cp312-manylinux_2_28_x86_64", "cp313-cp313-manylinux_2_28_x86_64"):
            path = build_wheel(
                folder, "fast-fft", "2.1", label=label, document=DOCUMENT, tag=tag, **about
            )
            index.add_wheel(
                path,
                requires_python=">=3.11",
                upload_time="2026-10-02T08:00:00Z",
                provenance=None if label else f"{url_of(path.name)}.provenance",
            )
    index.add_document("fast-fft", "fast_fft-2.1-variants.json", DOCUMENT)
    old = build_wheel(folder, "fast-fft", "2.0", **about)
    index.add_wheel(old, yanked="wrong on odd sizes", upload_time="2026-03-01T08:00:00Z")
    index.add_wheel(build_wheel(folder, "fast-fft", "3.0rc1", **about))
    index.add_wheel(build_wheel(folder, "plainly", "1.0"))
    return index


LONG_NAME = "a-project-with-a-name-as-long-as-some-companies-give-them-to-their-own-code"
LONG_VERSION = "1!2026.11.28.post12.dev20261128093015+g0123456789abcdef." + "part." * 12 + "0"


def add_long(index: MemoryIndex, folder: Path) -> None:
    """Add a project whose names and texts are long."""
    path = build_wheel(
        folder, LONG_NAME, LONG_VERSION,
        requires_python=">=3.11,<4,!=3.12.0,!=3.12.1,!=3.13.0",
        requires=[f"{LONG_NAME}-{number}=={LONG_VERSION}" for number in range(3)],
        description="A line of a text without a markup. " * 200 + "\n\nAnother.\n" * 80,
        metadata_extra=[
            ("Summary", "Everything of this project is long, and so is its summary. " * 4),
            ("Description-Content-Type", "text/plain"),
            ("Keywords", ",".join(f"keyword{number}" for number in range(40))),
            ("Classifier", "License :: OSI Approved :: GNU Lesser General Public License v3"),
            ("Project-URL", f"Homepage, https://example.org/{'path/' * 60}"),
        ],
    )  # fmt: skip
    index.add_wheel(path, requires_python=">=3.11", upload_time="2026-10-03T08:00:00Z")


def many_variants(count: int) -> MemoryIndex:
    """Return an index with a release of many variants, without the bytes of wheels."""
    index = MemoryIndex(stamped=True)
    labels = [f"v{number}" for number in range(count)]
    document = release_document(
        {
            label: {"nvidia": {"cuda_version_lower_bound": [f"12.{number % 9}"]}}
            for number, label in enumerate(labels)
        },
        providers={"nvidia": {"requires": ["nvidia-variant-provider>=0.0.1"]}},
    )
    files = [
        File(name, url_of(name), {"sha256": "0" * 64}, size=1000)
        for name in (f"many-1.0-py3-none-any-{label}.whl" for label in labels)
    ]
    index.add("many", *files)
    index.add_document("many", "many-1.0-variants.json", document)
    return index
