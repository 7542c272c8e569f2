"""A server of one's own with what vendors' indexes have, for machines that reach nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import until
from server.running import RunningIndex
from world.internet import World
from world.registries import ARM, HERE, LINUX, StaticIndex, Wheel, wheels

pytestmark = pytest.mark.integration

pytest.importorskip("uvicorn", reason="needs the extra `server`")

JSON = "application/vnd.pypi.simple.v1+json"
HOSTS = ("download.pytorch.org", "download-r2.pytorch.org", "repo.amd.com")
CPU, CUDA_12, AMD = "cpu-x86_64-v3", "cuda-12.2-sm90", "rocm-7.0-gfx942"


@pytest.fixture
def world(new_world: Callable[[], World]) -> World:
    """Return a world in which the vendor's pages have no hashes and no metadata."""
    world = new_world()
    world.registry.add([Wheel("filelock", "3.1")])
    vendor = StaticIndex(
        HOSTS[0], has_hashes=False, has_metadata=False, files_host="download-r2.pytorch.org"
    )
    world.net.hosts.update(dict.fromkeys(HOSTS[:2], vendor))
    for build in ("cpu", "cu126"):
        vendor.add(
            f"whl/{build}", wheels("torch", f"2.14.1+{build}", LINUX, requires=("filelock",))
        )
        vendor.add(
            f"whl/{build}", [Wheel("numpy", "99.0"), Wheel("torchao", "0.14", requires=(build,))]
        )
    world.amd.add(
        "rocm/whl-multi-arch", wheels("torch", "2.14.0+rocm7.14", LINUX, requires=("filelock",))
    )
    world.amd.add("rocm/whl-multi-arch", [Wheel("rocm", "7.14.0")])
    return world


@pytest.fixture
def serve(world: World, tmp_path: Path) -> Iterator[Callable[..., RunningIndex]]:
    """Return a function that starts a server in this world."""
    running: list[RunningIndex] = []

    def start(*options: str) -> RunningIndex:
        server = RunningIndex(tmp_path / "index", *options, environ=world.environ())
        running.append(server)
        return server

    yield start
    for server in running:
        server.__exit__(None, None, None)


def files(server: RunningIndex, path: str) -> list[dict[str, object]]:
    """Return what a page lists."""
    status, _, body = server.get(path, accept=JSON)
    assert status == 200, body
    found = json.loads(body)["files"]
    assert isinstance(found, list)
    return found


def cut_off(world: World) -> None:
    """Make the vendors unreachable."""
    for host in HOSTS:
        del world.net.hosts[host]


@pytest.mark.parametrize("machine", [CPU, CUDA_12])
def test_installed_without_the_vendor(
    world: World, serve: Callable[..., RunningIndex], machine: str
) -> None:
    """What was fetched once is really installed when the vendor cannot be reached."""
    server = serve("--mirror", "pytorch")
    (bridge,) = server.said["bridges"]
    assert bridge == f"pytorch@{server.origin}/bridges/pytorch"
    words = ["install", "torch", "--for", machine, "--no-cache-dir", "--bridge", str(bridge)]
    build = "cpu" if machine == CPU else "cu126"
    page = f"/bridges/pytorch/{build}/torch/"
    assert files(server, page)[0]["hashes"] == {}
    first, second = world.folder / f"first-{machine}", world.folder / f"second-{machine}"
    world.run(*words, "--target", str(first))
    (file,) = files(server, page)
    assert set(file["hashes"]) == {"sha256"}  # type: ignore[call-overload]
    assert file["core-metadata"]
    cut_off(world)
    done = world.run(*words, "--target", str(second))
    assert "warning" not in done.stderr
    for target in (first, second):
        text = (target / "torch/__init__.py").read_text("utf-8")
        assert text == f"__version__ = '2.14.1+{build}'\n"


def test_one_line_of_configuration(world: World, serve: Callable[..., RunningIndex]) -> None:
    """A site says it once, for everybody; what was fetched once comes without the internet."""
    server = serve("--mirror", "pytorch", "--mirror", "https://pypi.org/simple/")
    settings = world.folder / ".config" / "wheelfit" / "wheelfit.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'bridges = ["{server.said["bridges"][0]}"]\n', "utf-8")
    words = ["install", "torch", "--for", CPU, "--index-url", server.url, "--no-cache-dir"]
    world.run(*words, "--target", str(world.folder / "first"))
    world.net.hosts.clear()
    world.run(*words, "--target", str(world.folder / "second"))
    assert "2.14.1+cpu" in (world.folder / "second/torch/__init__.py").read_text("utf-8")
    assert (world.folder / "second/filelock").is_dir()


def test_what_the_vendor_has_elsewhere(world: World, serve: Callable[..., RunningIndex]) -> None:
    """Indexes of others that the family names are folders below their hosts."""
    server = serve("--mirror", "pytorch")
    result = world.choose(AMD, "torch", "--bridge", str(server.said["bridges"][0]))
    assert result.chosen["torch"] == "2.14.0+rocm7.14 (gfx942)"
    assert files(server, "/bridges/pytorch/repo.amd.com/rocm/whl-multi-arch/torch/")


@pytest.mark.usefixtures("world")
def test_only_the_projects_of_the_family(serve: Callable[..., RunningIndex]) -> None:
    """Other projects of the vendor's index are not served, nor are their files."""
    server = serve("--mirror", "pytorch")
    for path in ("cpu/numpy/", "cpu/files/numpy-99.0-py3-none-any.whl", "cu999/torch/", "cpu", ""):
        status, _, _ = server.get(f"/bridges/pytorch/{path}")
        assert status == (301 if path == "cpu" else 404), path
    assert server.get("/simple/torch/")[0] == 404
    assert server.get("/bridges/jax/cpu/torch/")[0] == 404


@pytest.mark.usefixtures("world")
def test_files_of_one_name(serve: Callable[..., RunningIndex]) -> None:
    """Two folders may have different files of one name; each client gets those of its folder."""
    server = serve("--mirror", "pytorch")
    found = {}
    for build in ("cpu", "cu126"):
        (file,) = files(server, f"/bridges/pytorch/{build}/torchao/")
        assert file["url"] == "../files/torchao-0.14-py3-none-any.whl"
        status, _, found[build] = server.get(f"/bridges/pytorch/{build}/{str(file['url'])[3:]}")
        assert status == 200
    assert found["cpu"] != found["cu126"]


def test_only_some_folders(
    world: World, serve: Callable[..., RunningIndex], tmp_path: Path
) -> None:
    """An operator says which builds count; clients do with those."""
    settings = tmp_path / "server.toml"
    settings.write_text(
        '[[mirror]]\nbridge = "pytorch"\nname = "torch"\nfolders = ["cp*", "cpu"]\n'
    )
    server = serve("--settings", str(settings))
    bridge = f"pytorch@{server.origin}/bridges/torch"
    assert server.said["bridges"] == [f"torch@{server.origin}/bridges/torch"]
    assert (
        world.choose(CUDA_12, "torch", "--bridge", bridge).chosen["torch"].startswith("2.14.1+cpu")
    )


def test_hosts_of_strangers(world: World, serve: Callable[..., RunningIndex]) -> None:
    """Files on hosts that the family does not name are not served."""
    index = StaticIndex(HOSTS[0], files_host="files.stranger.example")
    index.add("whl/cpu", wheels("torch", "2.15.0+cpu", LINUX))
    world.net.hosts |= {HOSTS[0]: index, "files.stranger.example": index}
    server = serve("--mirror", "pytorch")
    assert files(server, "/bridges/pytorch/cpu/torch/") == []
    assert not any("stranger" in url for url in world.net.requests)
    until(lambda: "may not request" in server.log)


FLASH = "2.8.3.post2"
FLASH_LOCAL = "cu12torch2.10cxx11abiTRUE"
FLASH_FILE = f"v{FLASH}/flash_attn-{FLASH}%2B{FLASH_LOCAL}-{HERE}-{HERE}-linux_x86_64.whl"
RELEASES = f"Dao-AILab/flash-attention/releases/download/v{FLASH}"
SCATTER = "torch-2.11.0+cu126.html"
FAMILIES = ("pytorch", "pyg", "flash-attn")


@pytest.fixture
def extensions(world: World) -> World:
    """Return the world with extensions of torch, on flat pages and among files of releases."""
    vendor = world.index(HOSTS[0])
    for build in ("cpu", "cu126"):
        for version in ("2.10.0", "2.11.0"):
            vendor.add(f"whl/{build}", wheels("torch", f"{version}+{build}", LINUX, ARM))
    pages = StaticIndex("data.pyg.org", has_hashes=False, has_metadata=False)
    world.net.hosts["data.pyg.org"] = pages
    for build in ("cpu", "cu126"):
        page = f"whl/torch-2.11.0+{build}.html"
        pages.add(page, wheels("torch-scatter", f"2.1.2+pt211{build}", LINUX, "win_amd64"))
        pages.add(page, wheels("pyg-lib", f"0.6.0+pt211{build}", LINUX))
        pages.add(page, [Wheel("numpy", "99.0")])
    released = wheels(
        "flash-attn", FLASH, "linux_x86_64", file_local=FLASH_LOCAL, requires=("torch",)
    )
    world.index("github.com").add(RELEASES, released)
    return world


def bridges_of(server: RunningIndex) -> list[str]:
    """Return the options by which clients take families from a server, and all else, too."""
    options = [word for bridge in server.said["bridges"] for word in ("--bridge", str(bridge))]
    return [*options, "--index-url", server.url, "--no-cache-dir"]


def test_filled_for_two_machines(extensions: World, serve: Callable[..., RunningIndex]) -> None:
    """What is downloaded for machines through a mirror, they can install without the internet."""
    world, mirrored = extensions, [word for family in FAMILIES for word in ("--mirror", family)]
    server = serve(*mirrored, "--mirror", "https://pypi.org/simple/")
    options = bridges_of(server)
    fill = ["download", "-d", str(world.folder / "filled"), *options]
    world.run(*fill, "torch-scatter", "--for", CPU, "--for", CUDA_12)
    world.run(*fill, "flash-attn", "--for", CUDA_12)
    world.net.hosts.clear()
    for machine, wanted, module, version in (
        (CPU, "torch-scatter", "torch_scatter", "2.1.2+pt211cpu"),
        (CUDA_12, "torch-scatter", "torch_scatter", "2.1.2+pt211cu126"),
        (CUDA_12, "flash-attn", "flash_attn", FLASH),
    ):
        target = world.folder / f"target-{machine}-{module}"
        world.run("install", wanted, "--for", machine, *options, "--target", str(target))
        text = (target / module / "__init__.py").read_text("utf-8")
        assert text == f"__version__ = {version!r}\n"
        assert (target / "torch").is_dir()


def test_pages_and_files(extensions: World, serve: Callable[..., RunningIndex]) -> None:
    """A flat page is a page, files of releases are where they are, and nothing else is served."""
    server = serve("--mirror", "pyg", "--mirror", "flash-attn")
    listed = files(server, f"/bridges/pyg/{SCATTER}")
    names = {str(file["filename"]).partition("-")[0] for file in listed}
    assert names == {"torch_scatter", "pyg_lib"}
    for file in listed:
        assert server.get(f"/bridges/pyg/{file['url']}")[0] == 200
        assert server.get(f"/bridges/pyg/{file['url']}.metadata")[0] == 200
    assert {str(file["hashes"]) for file in files(server, f"/bridges/pyg/{SCATTER}")} != {"{}"}
    page = f"/bridges/pyg/{SCATTER.replace('+', '%2B')}"
    status, _, html = server.get(page, accept="text/html")
    assert status == 200
    assert b"numpy" not in html
    assert server.get(f"{page}.files/numpy-99.0-py3-none-any.whl")[0] == 404
    assert server.get(f"/bridges/flash-attn/{FLASH_FILE}.metadata")[0] == 200
    assert server.get(f"/bridges/flash-attn/{FLASH_FILE}")[0] == 200
    others = ("", f"v{FLASH}", f"v{FLASH}/", FLASH_FILE.replace("torch2.10", "torch1.0"))
    assert {server.get(f"/bridges/flash-attn/{path}")[0] for path in others} == {404}
    assert server.get("/bridges/pyg/torch-1.0.0+cpu.html")[0] == 404
    assert not any("torch1.0" in url for url in extensions.net.requests)


@pytest.mark.usefixtures("extensions")
def test_only_some_wheels(serve: Callable[..., RunningIndex]) -> None:
    """An operator says for which Pythons and platforms wheels are mirrored."""
    server = serve(
        "--mirror", "pyg", "--mirror", "pytorch", "--mirror-platform", "linux_x86_64",
        "--mirror-python", "3.9", "--mirror-python", f"{HERE[2]}.{HERE[3:]}",
    )  # fmt: skip
    (torch,) = {str(file["filename"]) for file in files(server, "/bridges/pytorch/cpu/torch/")
                if "2.11.0" in str(file["filename"])}  # fmt: skip
    assert LINUX in torch
    found = [str(file["filename"]) for file in files(server, f"/bridges/pyg/{SCATTER}")]
    assert len(found) == 2
    assert not any("win_amd64" in name for name in found)
    other = serve("--mirror", "pyg", "--mirror-python", "3.9")
    assert files(other, f"/bridges/pyg/{SCATTER}") == []
