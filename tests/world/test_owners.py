"""What a vendor's index may supply, and what it may not, whoever writes its pages."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path

import pytest
from world.internet import World
from world.registries import LINUX, Distribution, Wheel, wheels

from wheelfit.testing.internet import Document

pytestmark = pytest.mark.integration

PYTORCH = "download.pytorch.org"
MACHINE = "cpu-x86_64-v3"
TORCH = "/whl/cpu/torch/"
NO_NETWORK = 5
PYTHON_3_10 = """
[metadata]
version = "0.1"

[interpreter]
version = "3.10.14"

[platform]
machine = "x86_64"
glibc = "2.39"
"""


class Pages:
    """A host with pages and files at paths of their own.

    :param otherwise: the answer for what it does not have.
    """

    def __init__(self, otherwise: Document | None = None) -> None:
        self.at: dict[str, Document] = {}
        self._otherwise = otherwise

    def __call__(self, path: str) -> Document | None:
        """Return what is at a path."""
        return self.at.get(path.replace("%2B", "+"), self._otherwise)

    def add(
        self,
        page: str,
        found: Iterable[Distribution],
        at: str = f"https://{PYTORCH}",
        attributes: str = "",
        meta: str = "",
    ) -> None:
        """Add links to a page, and the files.

        :param page: its path.
        :param found: what it links to.
        :param at: where links lead.
        :param attributes: of each link.
        :param meta: what stands in the head of the page.
        """
        links = self.at[page].content.decode() if page in self.at else f"<!DOCTYPE html>{meta}"
        for one in found:
            self.at[f"/files/{one.filename}"] = Document(one.content)
            digest = hashlib.sha256(one.content).hexdigest()
            url = f"{at}/files/{one.filename}#sha256={digest}"
            links += f'<a href="{escape(url)}" {attributes}>{one.filename}</a>'
        self.at[page] = Document(links.encode(), "text/html")


@pytest.fixture
def world(new_world: Callable[[], World]) -> World:
    """Return a world with torch 2.15 in the registry, and a vendor's index without anything."""
    world = new_world()
    world.registry.add(wheels("torch", "2.15.0", LINUX))
    return world


@pytest.fixture
def vendor(world: World) -> Pages:
    """Return the vendor's index."""
    pages = Pages()
    world.net.hosts[PYTORCH] = pages
    return pages


def torch(version: str, requires: tuple[str, ...] = ()) -> list[Wheel]:
    """Return a wheel of torch for Linux."""
    return list(wheels("torch", version, LINUX, requires=requires))


def test_links_to_strangers(world: World, vendor: Pages) -> None:
    """Files on hosts that the family does not name are left out, and that is said."""
    world.net.hosts["files.stranger.example"] = vendor
    vendor.add(TORCH, torch("2.14.1+cpu"))
    vendor.add(TORCH, torch("2.15.0+cpu"), at="https://files.stranger.example")
    result = world.choose(MACHINE, "torch")
    assert result.chosen == {"torch": "2.14.1+cpu (null)"}
    assert "files on files.stranger.example do not count" in result.err
    assert not any("stranger" in url for url in world.net.requests)


def test_links_without_encryption(world: World, vendor: Pages) -> None:
    """Files of a vendor's index that come over HTTP are left out, and that is said."""
    vendor.add(TORCH, torch("2.14.1+cpu"))
    vendor.add(TORCH, torch("2.15.0+cpu"), at=f"http://{PYTORCH}")
    result = world.choose(MACHINE, "torch")
    assert result.chosen == {"torch": "2.14.1+cpu (null)"}
    assert f"files on http://{PYTORCH} do not count" in result.err


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (f"http://{PYTORCH}/elsewhere/", "from https to http"),
        ("https://stranger.example/whl/cpu/torch/", "stranger.example"),
    ],
)
def test_redirected_pages(world: World, vendor: Pages, target: str, says: str) -> None:
    """A page that is elsewhere is an error, unless the registry's build does."""
    stranger = world.net.hosts["stranger.example"] = Pages()
    stranger.add("/whl/cpu/torch/", torch("99.0+cpu"))
    vendor.at[TORCH] = Document(b"", status=302, location=target)
    result = world.choose(MACHINE, "torch", "--retries", "0")
    assert result.chosen == {"torch": "2.15.0 (null)"}
    assert says in result.err
    assert not any(url.startswith(target) for url in world.net.requests)


@pytest.mark.parametrize("host", ["http://download-r2.pytorch.org", "https://stranger.example"])
def test_redirected_files(world: World, vendor: Pages, host: str) -> None:
    """A file that is elsewhere is not fetched."""
    (wheel,) = torch("2.15.0+cpu")
    world.net.hosts["stranger.example"] = vendor
    vendor.add(TORCH, [wheel])
    path = f"/files/{wheel.filename}"
    moved = Document(b"", status=302, location=f"{host}{path}")
    vendor.at[path] = moved
    target = str(world.folder / "target")
    done = world.run("install", "torch", "--for", MACHINE, "--target", target, code=NO_NETWORK)
    assert host.partition("://")[2] in done.stderr
    if host.startswith("https"):
        text = " ".join(done.stderr.split())
        assert f"{host} cannot be read: the bridge pytorch does not list this host" in text
        assert 'add "stranger.example" to hosts = [...] in a copy of' in text
        assert "pytorch.toml, and pass that file with --bridge" in text
    assert not any(url.startswith(f"{host}/") for url in world.net.requests)


def test_a_host_that_the_user_adds(world: World, vendor: Pages) -> None:
    """What the error says helps: with the host in a copy of the family, its files are fetched."""
    (wheel,) = torch("2.15.0+cpu")
    cdn = world.net.hosts["cdn.pytorch.example"] = Pages()
    vendor.add(TORCH, [wheel])
    path = f"/files/{wheel.filename}"
    cdn.at[path] = Document(wheel.content)
    vendor.at[path] = Document(b"", status=302, location=f"https://cdn.pytorch.example{path}")
    words = ("install", "torch", "--for", MACHINE, "--target", str(world.folder / "target"))
    refused = world.run(*words, "--json", code=NO_NETWORK)
    error = json.loads(refused.stdout)["error"]
    assert (error["code"], "cdn.pytorch.example" in error["where"]) == ("unreachable", True)
    (shipped,) = re.findall(r"a copy of (\S+\.toml),", error["hint"])
    text = Path(shipped).read_text("utf-8")
    own = world.folder / "own.toml"
    own.write_text(text.replace("hosts = [", 'hosts = ["cdn.pytorch.example", ', 1), "utf-8")
    world.run(*words, "--bridge", str(own))
    assert (world.folder / "target/torch/__init__.py").is_file()


@pytest.mark.parametrize("name", ["rocm", "rocm-sdk-core", "amd-torch-device-gfx942"])
@pytest.mark.parametrize("reach", ["nothing there", "forbidden", "out of reach"])
def test_names_of_a_vendor_only(world: World, name: str, reach: str) -> None:
    """What lives on a vendor's index never comes from the registry (torchtriton, 2022)."""
    world.registry.add([Wheel(name, "99.0")])
    if reach == "out of reach":
        del world.net.hosts["repo.amd.com"]
    if reach == "forbidden":
        world.net.hosts["repo.amd.com"] = Pages(Document(b"AccessDenied", status=403))
    code = NO_NETWORK if reach == "out of reach" else 3
    result = world.choose("rocm-7.0-gfx942", name, "--retries", "0", code=code)
    assert result.error["code"] == ("unreachable" if code == NO_NETWORK else "project-not-found")
    assert not any(f"pypi.org/simple/{name}" in url for url in world.net.requests)


def test_needs_of_a_vendor_only(world: World) -> None:
    """That holds of what a wheel needs as well."""
    world.registry.add([Wheel("rocm-sdk-core", "99.0"), Wheel("own", "1.0", requires=("rocm",))])
    world.registry.add([Wheel("rocm", "99.0")])
    world.amd.add("rocm/whl-multi-arch", [Wheel("rocm", "7.14", requires=("rocm-sdk-core",))])
    world.amd.add("rocm/whl-multi-arch", [Wheel("rocm-sdk-core", "7.14")])
    result = world.choose("rocm-7.0-gfx942", "own")
    assert result.chosen["rocm"].startswith("7.14 ")
    assert result.chosen["rocm-sdk-core"].startswith("7.14 ")


def test_nothing_is_merged(world: World, vendor: Pages) -> None:
    """A higher version in the registry is not that of the owner."""
    world.registry.add(torch("99.0"))
    vendor.add(TORCH, torch("2.14.1+cpu"))
    assert world.choose(MACHINE, "torch").chosen == {"torch": "2.14.1+cpu (null)"}
    assert world.choose(MACHINE, "torch>=90", code=3).error["code"]


def test_names_that_the_vendor_does_not_own(world: World, vendor: Pages) -> None:
    """What a vendor's index has of other projects does not count."""
    world.registry.add([Wheel("numpy", "2.4.0")])
    vendor.add(TORCH, torch("2.15.0+cpu", requires=("numpy",)))
    vendor.add("/whl/cpu/numpy/", [Wheel("numpy", "99.0")])
    assert world.choose(MACHINE, "torch").chosen["numpy"].startswith("2.4.0 ")
    assert not any(f"{PYTORCH}/whl/cpu/numpy" in url for url in world.net.requests)


def test_pages_without_pythons(world: World, vendor: Pages) -> None:
    """Where only METADATA says which Pythons a release is for, an older one is taken."""
    for version, pythons in (("2.15.0", ">=3.11"), ("2.14.1", ">=3.10")):
        found = wheels("torch", f"{version}+cpu", LINUX, python="cp310", requires_python=pythons)
        vendor.add(TORCH, found)
    (world.folder / "old.toml").write_text(PYTHON_3_10)
    result = world.choose("old.toml", "torch", "-v")
    assert result.chosen == {"torch": "2.14.1+cpu (null)"}
    error = world.choose("old.toml", "torch==2.15.*", code=3)
    assert "needs Python >=3.11" in error.words


def test_yanked(world: World, vendor: Pages) -> None:
    """A release that its vendor has yanked is not taken, except by its number."""
    vendor.add(TORCH, torch("2.15.0+cpu"), attributes='data-yanked="wrong kernels"')
    vendor.add(TORCH, torch("2.14.1+cpu"))
    assert world.choose(MACHINE, "torch").chosen == {"torch": "2.14.1+cpu (null)"}
    result = world.choose(MACHINE, "torch==2.15.0+cpu")
    assert result.chosen == {"torch": "2.15.0+cpu (null)"}
    assert "wrong kernels" in result.words


def test_quarantined(world: World, vendor: Pages) -> None:
    """Files of a project that its vendor has quarantined are not taken, nor the registry's."""
    meta = '<meta name="pypi:project-status" content="quarantined">'
    vendor.add(TORCH, torch("2.15.0+cpu"), meta=meta)
    result = world.choose(MACHINE, "torch", code=3)
    assert "quarantined" in result.words


def test_archived(world: World, vendor: Pages) -> None:
    """What a vendor says of the state of a project is told."""
    meta = '<meta name="pypi:project-status" content="archived">'
    vendor.add(TORCH, torch("2.15.0+cpu"), meta=meta)
    assert "archived" in world.choose(MACHINE, "torch").words


def test_forbidden_is_absent(world: World) -> None:
    """A folder that answers 403 for a project does not have it, as object stores say."""
    world.net.hosts[PYTORCH] = forbidding = Pages(Document(b"AccessDenied", status=403))
    forbidding.add("/whl/cu126/torch/", torch("2.14.1+cu126"))
    forbidding.add(TORCH, torch("2.14.1+cpu"))
    result = world.choose("cuda-12.2-sm90", "torch")
    assert result.chosen == {"torch": "2.14.1+cu126 (cu126)"}


class TestElsewhere:
    """The indexes of a family at an address that the user names."""

    @pytest.fixture
    def mirror(self, world: World) -> Pages:
        """Return a host with two of the folders, and files of its own."""
        pages = Pages()
        at = "http://mirror.example"
        pages.add("/whl/cpu/torch/", torch("2.14.1+cpu"), at=at)
        pages.add("/whl/cu126/torch/", torch("2.14.1+cu126"), at=at)
        world.net.hosts["mirror.example"] = pages
        return pages

    def test_without_encryption(self, world: World, mirror: Pages) -> None:
        """Where anybody on the way could change them they do not count."""
        assert mirror.at
        result = world.choose(
            MACHINE, "torch", "--bridge", "pytorch@http://mirror.example/whl", code=1
        )
        assert result.error["code"] == "invalid-configuration"
        assert "plain HTTP" in result.error["message"]
        assert result.error["where"] == "http://mirror.example/whl"
        assert "--trusted-host mirror.example" in result.error["hint"]
        assert not any("mirror.example" in url for url in world.net.requests)

    @pytest.mark.parametrize(
        ("machine", "expected"),
        [("cuda-12.2-sm90", "2.14.1+cu126 (cu126)"), (MACHINE, "2.14.1+cpu (null)")],
    )
    def test_of_a_trusted_host(
        self, world: World, mirror: Pages, machine: str, expected: str
    ) -> None:
        """A trusted one counts, and those of its folders that there are."""
        assert mirror.at
        words = ["torch", "--bridge", "pytorch@http://mirror.example/whl"]
        result = world.choose(machine, *words, "--trusted-host", "mirror.example")
        assert result.chosen == {"torch": expected}
        assert not any(PYTORCH in url for url in world.net.requests)

    @pytest.mark.parametrize(
        ("bridge", "says"),
        [
            ("pytorch@", "has no URL of the indexes"),
            ("pytorch@http://", "is neither"),
            ("pytorch@nowhere", "is neither"),
            ("pytorch@ftp://mirror.example/whl", "is neither"),
            ("pytorch@https://[mirror.example/whl", "is neither"),
            ("cupy@https://mirror.example/whl", "has no indexes"),
        ],
    )
    def test_mistakes(self, world: World, bridge: str, says: str) -> None:
        """An address that cannot be is refused before anybody is asked."""
        assert says in world.choose(MACHINE, "torch", "--bridge", bridge, code=1).error["message"]
        assert world.net.requests == []
