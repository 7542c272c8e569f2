"""A proxy in front of an index, called without a socket."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.core.compatible_tags import (
    interpreter_values,
    linux_platforms,
    platform_values,
    tags_for,
)
from wheelfit.core.target import Target
from wheelfit.server.allowed_addresses import AddressRules
from wheelfit.server.messages import Request, Response
from wheelfit.server.proxy.application import Proxy
from wheelfit.server.proxy.profiles import Profile
from wheelfit.server.proxy.upstream import BridgedUpstream, Upstream
from wheelfit.sources.bridges.catalogue import BridgeCatalogue
from wheelfit.sources.open import open_web
from wheelfit.sources.settings import SourceSettings
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit_runtime.errors import UnknownHost

JSON = "application/vnd.pypi.simple.v1+json"
NV = {
    "requires": ["nvidia-variant-provider"],
    "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
}
CUDA = {"cuda_version_lower_bound": ["12.9", "12.8", "12.6"]}
LINUX_TAG, OLD_TAG = "cp313-cp313-manylinux_2_28_x86_64", "cp313-cp313-manylinux_2_17_x86_64"
MAC_TAG = "cp313-cp313-macosx_11_0_arm64"
LINUX = linux_platforms("x86_64", glibc=36)


def release(folder: Path, name: str, wheels: dict[str | None, list[str]], **more: Any) -> None:
    """Build a release with CUDA variants: tags by label."""
    labels = [label for label in wheels if label is not None]
    variants = {
        label: {}
        if label == "null"
        else {"nvidia": {"cuda_version_lower_bound": [f"{label[2:4]}.{label[4:]}"]}}
        for label in labels
    }
    document = release_document(variants, providers={"nvidia": NV})
    for label, tags in wheels.items():
        for tag in tags:
            build_wheel(folder, name, "1.0", label=label, document=document, tag=tag, **more)
    (folder / f"{name}-1.0-variants.json").write_text(json.dumps(document))


def target_of(platforms: Sequence[str] = LINUX, version: str = "3.13.1") -> Target:
    """Return a target with CPython."""
    python = Version(version)
    environment = interpreter_values("cpython", python) | platform_values(platforms[0])
    return Target.of("the test", environment, tags_for("cpython", python, (), platforms))


def user_agent(tool: str, command: str = "install", *, python: str = "3.13.1", **more: Any) -> str:
    """Return the User-Agent of pip or uv."""
    said: dict[str, Any] = {
        "cpu": "x86_64",
        "distro": {"libc": {"lib": "glibc", "version": "2.36"}},
        "implementation": {"name": "CPython", "version": python},
        "installer": {"name": tool, "version": "1", "subcommand": command.split()},
        "python": python,
        "system": {"name": "Linux"},
        **more,
    }
    return f"{tool}/1 {json.dumps(said)}"


PIP = {"accept": JSON, "user-agent": user_agent("pip")}
UV = {"accept": JSON, "user-agent": user_agent("uv", "pip install")}


class Behind:
    """A proxy and its notes; a context manager that closes it.

    :param url: of the index behind it.
    :param supported: what its machine supports: namespace to feature to values.
    :param others: further machines by name.
    :param cache: where things are kept; None keeps nothing.
    :param reach: of whom the index may speak; by default as near as it is itself.
    :param bridges: families that count besides those that always do; None: none count.
    :param patience: seconds that a page may take.
    :param options: of `Proxy`.
    """

    def __init__(
        self,
        *urls: str,
        supported: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
        others: Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]] | None = None,
        cache: Path | None = None,
        admission: Callable[[str, str], bool] | None = None,
        target: Target | None = None,
        bridges: Sequence[str] | None = None,
        patience: float | None = None,
        **options: Any,
    ) -> None:
        self.notes: list[str] = []
        self.webs = []
        upstreams: list[Upstream] = []
        for url in urls:
            web = open_web(
                SourceSettings(index_url=url, keyring="disabled", retries=0, resume_retries=1),
                cache_folder=cache,
                environ={},
                home=Path("/nonexistent"),
                is_allowed_address=admission or AddressRules.of(url),
                response_timeout=patience,
            )
            self.webs.append(web)
            if bridges is None:
                upstreams.append(Upstream(url, web))
            else:
                upstreams.append(BridgedUpstream(Upstream(url, web), BridgeCatalogue(bridges)))
        machines = {"": supported or {}, **(others or {})}
        self._profiles = {
            name: Profile(name, target or target_of(), FixedDetector(values))
            for name, values in machines.items()
        }
        self.proxy = Proxy(upstreams, self._profile, note=self.notes.append, **options)

    def _profile(self, name: str) -> Profile:
        if name not in self._profiles:
            raise UnknownHost(f"{name!r} is not a preset", hint="there are others")
        return self._profiles[name]

    def ask(
        self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> Response:
        """Ask for a path."""
        return self.proxy(Request(method, path, headers or {"accept": JSON}))

    def page(
        self, name: str, headers: Mapping[str, str] | None = None, *, before: str = ""
    ) -> dict[str, dict[str, Any]]:
        """Return the files of a page by name."""
        path = f"{before}/simple/{canonicalize_name(name)}/"
        answer = self.ask(path, {"accept": JSON, **(headers or {})})
        assert answer.status == 200, b"".join(answer.body)
        return {file["filename"]: file for file in json.loads(b"".join(answer.body))["files"]}

    def path_of(self, file: Mapping[str, Any], *, before: str = "") -> str:
        """Return the path of a file on the proxy."""
        url = str(file["url"])
        assert url.startswith("../../files/"), url
        return f"{before}/{url.removeprefix('../../')}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.close()
        for web in self.webs:
            web.close()


def body(answer: Response) -> bytes:
    """Return the body after checking its length."""
    data = b"".join(answer.body)
    assert len(data) == answer.length
    return data
