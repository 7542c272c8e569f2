"""Attacks by web pages in the browser of a logged-in user."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import until
from server.running import RunningIndex, basic
from server.site.browser import Browser, Tab, running_browser
from server.uploading import fields_of
from web_servers import served

from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration

for _name in ("uvicorn", "prometheus_client", "python_multipart", "jinja2"):
    pytest.importorskip(_name, reason="needs the extra `server`")

FOREIGN = "evil.test"
"""A name that leads to this machine, as a page of the web can let its own name do."""
FORM = """<!doctype html><body>
<form id=harm method=post target=away enctype="ENCTYPE" action="ACTION">INPUTS</form>
<iframe name=away></iframe>
<script>
  const file = document.querySelector("input[type=file]");
  if (file) {
    const bytes = Uint8Array.from(atob("CONTENT"), one => one.charCodeAt(0));
    const moved = new DataTransfer();
    moved.items.add(new File([bytes], "FILENAME"));
    file.files = moved.files;
  }
  document.querySelector("#harm").submit();
</script>"""
FETCH = """<!doctype html><body><script>
  const form = new FormData();
  for (const [name, value] of Object.entries(FIELDS)) form.append(name, value);
  const bytes = Uint8Array.from(atob("CONTENT"), one => one.charCodeAt(0));
  form.append("content", new File([bytes], "FILENAME"));
  const body = "ACTION".endsWith("/legacy/") ? form : JSON.stringify({what: ["victim"]});
  fetch("ACTION", {method: "POST", mode: "no-cors", credentials: "include", body});
</script>"""
SANDBOX = (
    """<!doctype html><body><iframe sandbox="allow-scripts allow-forms" srcdoc='PAGE'></iframe>"""
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a browser in which a foreign name resolves to this machine, or skip."""
    with running_browser(f"--host-resolver-rules=MAP {FOREIGN} 127.0.0.1") as browser:
        yield browser


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RunningIndex]:
    """Give an index that has a project `victim`."""
    with RunningIndex(tmp_path / "index") as index:
        assert index.upload(build_wheel(tmp_path, "victim", "1.0")) == 200
        yield index
        assert index.token not in index.log


def logged_in(browser: Browser, index: RunningIndex) -> Tab:
    """Open a page whose every request has the operator's token."""
    tab = browser.tab()
    host, port = index.address
    tab.open(f"http://__token__:{index.token}@{host}:{port}/-/metrics")
    tab.send_headers({"Authorization": basic(index.token)})
    return tab


def posted(index: RunningIndex, path: str) -> int:
    """Wait for a request that would change something; return the response."""

    def statuses() -> list[int]:
        return [
            event["status"]
            for event in index.events("request")
            if "Chrom" in event.get("agent", "")
            and (event["method"], event["path"]) == ("POST", path)
        ]

    until(statuses)
    return statuses()[0]


def harmful(kind: str, target: str, path: Path) -> str:
    """Return a page that deletes or uploads when it is opened."""
    content = base64.b64encode(path.read_bytes()).decode()
    fields = fields_of(path.name, path.read_bytes())
    if kind == "fetch":
        page = FETCH.replace("FIELDS", json.dumps(dict(fields)))
    elif target.endswith("/legacy/"):
        inputs = "".join(f"<input name='{name}' value='{fields[name]}'>" for name in fields)
        page = FORM.replace("ENCTYPE", "multipart/form-data")
        page = page.replace("INPUTS", f"{inputs}<input type=file name=content>")
    else:
        inputs = """<input name='{"names":["victim"],"x":"' value='"}'>"""
        page = FORM.replace("ENCTYPE", "text/plain").replace("INPUTS", inputs)
    page = page.replace("CONTENT", content).replace("FILENAME", path.name).replace("ACTION", target)
    if kind == "sandbox":
        page = SANDBOX.replace("PAGE", page.replace("&", "&amp;").replace("'", "&#39;"))
    return page


@pytest.mark.parametrize("kind", ["form", "fetch", "sandbox"])
@pytest.mark.parametrize("action", ["/-/api/delete", "/legacy/"])
@pytest.mark.parametrize("site", [FOREIGN, "127.0.0.1"], ids=["cross-site", "same-site"])
def test_cross_site_requests(
    browser: Browser,
    index: RunningIndex,
    tmp_path: Path,
    kind: str,
    action: str,
    site: str,
) -> None:
    """A page of another origin cannot delete or upload with stored credentials."""
    wheel = build_wheel(tmp_path, "planted", "1.0")
    (tmp_path / "harm.html").write_text(harmful(kind, index.origin + action, wheel))
    tab = logged_in(browser, index)
    with served(tmp_path) as attacker:
        tab.open(f"{attacker.replace('127.0.0.1', site)}/harm.html")
        assert posted(index, action) in (403, 415)
    assert b"victim-1.0" in index.get("/simple/victim/")[2]
    assert index.get("/simple/planted/")[0] == 404


def test_dns_rebinding(browser: Browser, index: RunningIndex) -> None:
    """A page whose name resolves to the index neither reads nor changes it."""
    tab = browser.tab()
    port = index.address[1]
    tab.drop_policies()  # the page came from elsewhere, before its name led here
    tab.open(f"http://{FOREIGN}:{port}/simple/")
    assert tab.evaluate("location.hostname") == FOREIGN
    ask = "(async () => {{ const got = await fetch({}); return [got.status, await got.text()] }})()"
    for path in ("/", "/simple/", "/simple/victim/", "/-/health/live", "/files/x", "/nothing"):
        status, text = tab.evaluate(ask.format(json.dumps(path)))
        assert (status, "victim" in text) == (421, False), path
    tab.send_headers({"Authorization": f"Bearer {index.token}"})
    delete = (
        '"/-/api/delete", {method: "POST", headers: {"content-type": "application/json"},'
        ' body: JSON.stringify({what: ["victim"]})}'
    )
    assert tab.evaluate(ask.format(delete))[0] == 421
    assert b"victim-1.0" in index.get("/simple/victim/")[2]


def test_browser_tokens(browser: Browser, tmp_path: Path) -> None:
    """Pages of a private index accept read tokens, and not the operator's."""
    with RunningIndex(tmp_path / "index", "--read", "tokens") as index:
        assert index.upload(build_wheel(tmp_path, "victim", "1.0")) == 200
        result = json.dumps({"scopes": ["read"]}).encode()
        me = f"Bearer {index.token}"
        _, _, made = index.ask("POST", "/-/api/tokens", result, authorization=me,
                               content_type="application/json")  # fmt: skip
        host, port = index.address
        for token, shows in ((index.token, False), (json.loads(made)["secret"], True)):
            tab = browser.tab()
            tab.open(f"http://__token__:{token}@{host}:{port}/")
            assert ("victim" in tab.evaluate("document.body.innerText")) == shows
            tab.open(f"http://{host}:{port}/-/metrics")
            assert "wheelfit_requests" not in tab.evaluate("document.body.innerText")


def test_cross_origin_headers(index: RunningIndex) -> None:
    """No response lets foreign pages read or embed it, or passes a preflight."""
    paths = ("/", "/simple/", "/simple/victim/", "/nothing", "/legacy/", "/-/metrics",
             "/-/api/tokens", "/-/health/live", "/files/victim-1.0-py3-none-any.whl")  # fmt: skip
    for path in paths:
        for method in ("GET", "OPTIONS", "POST"):
            status, headers, _ = index.ask(
                method,
                path,
                origin=f"http://{FOREIGN}",
                access_control_request_method="POST",
                access_control_request_headers="authorization",
                access_control_request_private_network="true",
            )
            assert not [name for name in headers if name.startswith("access-control")]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            if method == "POST" and not path.startswith(("/nothing", "/files", "/-/health")):
                assert status >= 400, path


NEAR = {"127.0.0.1", "localhost:1"}


@pytest.mark.parametrize(
    ("address", "options", "names", "goes_by"),
    [
        ("127.0.0.1", (), (), NEAR),
        ("127.0.0.1", ("--public-url", f"https://{FOREIGN}/below"), (), NEAR | {FOREIGN}),
        ("127.0.0.1", (), (FOREIGN, "other.test"), NEAR | {FOREIGN}),
        ("0.0.0.0", (), (), NEAR | {FOREIGN, "10.0.0.1"}),
        ("0.0.0.0", (), (FOREIGN,), NEAR | {FOREIGN}),
    ],
)
def test_host_names(
    tmp_path: Path,
    address: str,
    options: tuple[str, ...],
    names: tuple[str, ...],
    goes_by: set[str],
) -> None:
    """Local and configured names are accepted; any name on a public server without one."""
    with socket.create_server((address, 0)) as listener:
        number = listener.fileno()
        options = ("--fd", str(number), *options)
        with RunningIndex(tmp_path / "i", *options, pass_fds=[number], names=names) as index:
            index.address = ("127.0.0.1", listener.getsockname()[1])
            asked = (*NEAR, FOREIGN, "10.0.0.1")
            assert {one for one in asked if index.get("/simple/", host=one)[0] == 200} == goes_by
