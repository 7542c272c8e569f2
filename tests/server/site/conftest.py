"""A browser, a server with pages, and an accessibility checker."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from server.site.browser import Browser, Tab, running_browser
from server.site.indexes import LONG_NAME, LONG_VERSION, MemoryIndex, add_long, fast_fft

from wheelfit.server.messages import Application, Request, Response
from wheelfit.server.simple import SimpleIndex
from wheelfit.server.store.records import RecentUpload

AXE = "axe-core@4.14.1"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Yield a browser, or skip."""
    with running_browser() as browser:
        yield browser


@pytest.fixture
def tab(browser: Browser) -> Tab:
    """Return a new tab."""
    return browser.tab()


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Return the folder for screenshots: build/screenshots or $WHEELFIT_SCREENSHOTS."""
    usual = Path(__file__).resolve().parents[3] / "build" / "screenshots"
    folder = Path(os.environ.get("WHEELFIT_SCREENSHOTS", usual))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the script axe-core, which finds accessibility problems, or skip."""
    if shutil.which("npm") is None:
        pytest.skip("axe-core comes from npm, which is not here")
    folder = tmp_path_factory.mktemp("axe")
    try:
        completed = subprocess.run(
            ["npm", "pack", "--silent", AXE],
            cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.skip("npm takes too long to give axe-core")
    archives = list(folder.glob("*.tgz"))
    if completed.returncode or not archives:
        pytest.skip(f"npm does not give axe-core: {completed.stderr[-300:]}")
    with tarfile.open(archives[0]) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> MemoryIndex:
    """Return an index with some malicious content."""
    from wheelfit.sources.page import File
    from wheelfit.sources.repository import url_of

    folder = tmp_path_factory.mktemp("wheels")
    index = fast_fft(folder)
    add_long(index, folder)
    for name in ("<script>document.title='harmed'</script>", "gnp\u202egpj", "w" * 300):
        index.add(name, File("some-1.0-py3-none-any.whl", url_of("some")))
    harm = "document.title='harmed'"
    text = f'"><script>{harm}</script><img src=x onerror="{harm}">'
    broken = File(
        "broken-1.0-py3-none-any-v3.whl", "javascript:document.title='harmed'", yanked=text
    )
    index.add("broken", broken, File(text, text))
    index.add_document("broken", "broken-1.0-variants.json", b"{")
    return index


@pytest.fixture(scope="module")
def server(shown: MemoryIndex) -> Iterator[str]:
    """Yield the URL of a server with the pages."""
    pytest.importorskip("jinja2", reason="needs the extra `server`")
    from wheelfit.server.site.site import Site

    recent = [
        RecentUpload(canonicalize_name(name), version, "2026-10-02T08:00:00Z")
        for name, version in ((LONG_NAME, LONG_VERSION), ("fast-fft", "2.1"))
    ]
    site = Site(
        shown,
        public_url="https://wheels.example.org/",
        takes_uploads=True,
        recent=lambda: recent,
    )
    simple = SimpleIndex(shown)

    def both(request: Request) -> Response:
        application: Application = simple if request.path.startswith("/simple") else site
        return application(request)

    with _Running(both) as origin:
        yield origin


class _Running:
    """An application served by uvicorn in a thread."""

    def __init__(self, application: Application) -> None:
        uvicorn = pytest.importorskip("uvicorn", reason="needs the extra `server`")
        from wheelfit.server.asgi import AsgiApplication
        from wheelfit.server.listening import listen_at

        self._application = AsgiApplication(application)
        self._listener = listen_at("127.0.0.1", 0)
        config = uvicorn.Config(self._application, log_level="critical", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],))

    def __enter__(self) -> str:
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)
        host, port = self._listener.getsockname()
        return f"http://{host}:{port}"

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._application.close()
