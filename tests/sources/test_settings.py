"""Options change settings as in pip."""

from __future__ import annotations

from wheelfit.sources.settings import DEFAULT_INDEX, SourceSettings


def test_options_change_settings_as_in_pip() -> None:
    """A single value replaces, a list is appended, a switch is turned."""
    configured = SourceSettings(
        index_url="https://one/",
        extra_index_urls=("https://two/",),
        find_links=("/a",),
        timeout=3.0,
    )
    changed = configured.with_options(
        index_url="https://three/", extra_index_urls=["https://four/"], find_links=["/b"], retries=1
    )
    assert changed.index_urls == ("https://three/", "https://two/", "https://four/")
    assert changed.find_links == ("/a", "/b")
    assert (changed.timeout, changed.retries) == (3.0, 1)


def test_nothing_given_changes_nothing() -> None:
    """Options that were not given leave everything as it was; a switch stays on."""
    configured = SourceSettings(no_index=True, cache=False, proxy="")
    assert configured.with_options() == configured
    assert configured.with_options(proxy="http://p").proxy == "http://p"


def test_no_index() -> None:
    """Without index there is none, extra ones included."""
    assert SourceSettings().index_urls == (DEFAULT_INDEX,)
    assert SourceSettings(extra_index_urls=("https://x/",), no_index=True).index_urls == ()
