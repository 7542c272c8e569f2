"""Pages in a browser: rendering, keyboard use and accessibility."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from server.site.browser import Tab
from server.site.indexes import LONG_NAME, LONG_VERSION

from wheelfit.operations.hosts import host_text
from wheelfit.resolution.preset_hosts import host_of_preset
from wheelfit_runtime.platforms.presets import compose

pytestmark = pytest.mark.integration

PAGES = {
    "projects": "/",
    "search": "/?q=nothing-like-that",
    "project": "/project/fast-fft/",
    "release": "/project/fast-fft/2.1/",
    "which": "/project/fast-fft/2.1/which/?preset=cuda-12.8-sm90",
    "nothing-fits": "/project/fast-fft/2.1/which/?preset=windows-x86_64",
    "bad-preset": "/project/fast-fft/2.1/which/?preset=cuda-99",
    "broken": "/project/broken/1.0/",
    "plain": "/project/plainly/1.0/",
    "long": f"/project/{LONG_NAME}/",
    "long-release": f"/project/{LONG_NAME}/{quote(LONG_VERSION)}/",
    "missing": "/project/fast-ftf/",
}
SCREENS = {
    f"{'dark' if dark else 'light'}-{width}": (width, dark)
    for width in (360, 768, 1440)
    for dark in (False, True)
}
UNFOLD = "for (const one of document.querySelectorAll('details')) one.open = true"
NARROWEST = """
Math.min(999, ...[...document.querySelectorAll('.projects .name, h1')].map(one => one.clientWidth))
"""
"""The width that a name has at least, in pixels."""
WRONG = """
(async () => {
  const found = await axe.run(document, {resultTypes: ["violations"]});
  return found.violations.flatMap(one => one.nodes.map(node =>
    `${one.id}: ${node.target} ${node.failureSummary}`));
})()
"""


@pytest.mark.parametrize("page", PAGES)
class TestPages:
    """Every page on every screen size."""

    def test_rendering(self, tab: Tab, server: str, page: str, pictures: Path) -> None:
        """Each page fits the screen, loads without errors, and runs no scripts of its content."""
        for screen, (width, dark) in SCREENS.items():
            tab.show(width=width, dark=dark)
            tab.open(server + PAGES[page])
            tab.screenshot(pictures / f"{page}-{screen}.png")
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            assert tab.evaluate(NARROWEST) >= 120
            tab.evaluate(UNFOLD)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            assert "harmed" not in tab.evaluate("document.title")
            shade = tab.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (shade == "rgb(15, 19, 24)") is dark
        problems = [
            complaint
            for complaint in tab.complaints()
            if "404" not in complaint and "400" not in complaint
        ]
        assert problems == []

    @pytest.mark.network
    def test_accessibility(self, tab: Tab, server: str, page: str, axe: str) -> None:
        """axe-core finds no accessibility problems."""
        tab.open(server + PAGES[page])
        tab.evaluate(UNFOLD)
        tab.evaluate(axe)
        found = {}
        for screen, (width, dark) in SCREENS.items():
            tab.show(width=width, dark=dark)
            found[screen] = tab.evaluate(WRONG)
        assert found == {screen: [] for screen in SCREENS}


def test_keyboard(tab: Tab, server: str) -> None:
    """The first Tab key leads to the content, and the focus is visible."""
    tab.show(width=1280, dark=False)
    tab.open(server + PAGES["release"])
    tab.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    assert tab.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
    tab.press("Tab")
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_search(tab: Tab, server: str) -> None:
    """The search form works with the content security policy."""
    tab.open(f"{server}/")
    tab.evaluate("document.querySelector('#q').value = 'FFT'; document.forms[0].submit()")
    tab.loaded()
    assert tab.evaluate("document.querySelectorAll('.projects li').length") == 1


def test_upload(tab: Tab, server: str, tmp_path: Path, pictures: Path) -> None:
    """An uploaded host file is answered."""
    path = tmp_path / "machine.toml"
    path.write_text(host_text(host_of_preset(compose(["cuda-12.6-sm80"]))[0]))
    tab.show(width=1280, dark=False)
    tab.open(server + PAGES["release"])
    tab.choose_file("#host-file", path)
    tab.evaluate("document.querySelector('form[method=post]').requestSubmit()")
    tab.loaded()
    assert tab.evaluate("document.querySelector('#answer').innerText") == "machine.toml gets cu126"
    tab.screenshot(pictures / "upload-light-1280.png")


def test_commands(tab: Tab, server: str) -> None:
    """One click selects a whole command."""
    tab.open(server + PAGES["release"])
    style = "getComputedStyle(document.querySelector('.commands code')).userSelect"
    assert tab.evaluate(style) == "all"
