"""Which proxy serves what."""

from __future__ import annotations

import pytest

from wheelfit.sources.proxies import ProxyRules

PROXY = "http://proxy.example:3128"


class TestEnvironment:
    """The variables that every program knows."""

    def test_by_scheme(self) -> None:
        """Each scheme has its proxy; the one for all comes last."""
        rules = ProxyRules.from_environ({"https_proxy": PROXY, "ALL_PROXY": "socks5://s:1"})
        assert rules.proxy_for("https://h.example/") == PROXY
        assert rules.proxy_for("http://h.example/") == "socks5://s:1"

    def test_scheme_in_upper_case(self) -> None:
        """The scheme of a URL may be written in any case."""
        assert ProxyRules.from_environ({"https_proxy": PROXY}).proxy_for("HTTPS://h/") == PROXY

    def test_lower_case_first(self) -> None:
        """The lower-case name wins; an empty one turns the proxy off."""
        environ = {"https_proxy": "", "HTTPS_PROXY": PROXY}
        assert ProxyRules.from_environ(environ).proxy_for("https://h/") is None

    def test_strangers_cannot_set_it(self) -> None:
        """Under CGI, HTTP_PROXY may be a header of the request, so it does not count."""
        environ = {"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}
        assert ProxyRules.from_environ(environ).proxy_for("http://h/") is None

    def test_scheme_may_be_missing(self) -> None:
        """A proxy without scheme is an HTTP proxy."""
        rules = ProxyRules.from_environ({"https_proxy": "proxy.example:3128"})
        assert rules.proxy_for("https://h/") == PROXY

    def test_system_comes_last(self) -> None:
        """The proxies of the operating system count only if the environment has none."""
        system = {"https": "http://system:1", "no": "x"}
        assert ProxyRules.from_environ({}, system).proxy_for("https://h/") == "http://system:1"
        environ = {"https_proxy": PROXY}
        assert ProxyRules.from_environ(environ, system).proxy_for("https://h/") == PROXY

    @pytest.mark.parametrize(
        ("exceptions", "url"),
        [
            ("*", "https://h.example/"),
            ("example", "https://h.example/"),
            (".example", "https://h.example/"),
            ("*.example", "https://h.example/"),
            ("x, H.EXAMPLE ,y", "https://h.example/"),
            ("h.example:8443", "https://h.example:8443/"),
            ("10.0.0.0/8", "https://10.1.2.3/"),
            ("10.1.2.3", "https://10.1.2.3:444/"),
            ("fd00::/8", "https://[fd00::1]/"),
            ("[::2]:444", "https://[::2]:444/"),
        ],
    )
    def test_exceptions(self, exceptions: str, url: str) -> None:
        """NO_PROXY names hosts, domains and networks, each maybe with a port."""
        environ = {"https_proxy": PROXY, "no_proxy": exceptions}
        assert ProxyRules.from_environ(environ).proxy_for(url) is None

    @pytest.mark.parametrize(
        ("exceptions", "url"),
        [
            ("ample", "https://h.example/"),
            ("h.example:8443", "https://h.example/"),
            ("10.0.0.0/8", "https://11.1.2.3/"),
            ("10.0.0.0/8", "https://h.example/"),
            ("", "https://h.example/"),
            ("h.example.org", "https://h.example/"),
        ],
    )
    def test_no_exceptions(self, exceptions: str, url: str) -> None:
        """A name that only looks alike is no exception."""
        environ = {"https_proxy": PROXY, "NO_PROXY": exceptions}
        assert ProxyRules.from_environ(environ).proxy_for(url) == PROXY

    def test_this_machine_is_never_behind_a_proxy(self) -> None:
        """A proxy would look for the server on its own machine."""
        rules = ProxyRules.from_environ({"all_proxy": PROXY})
        assert rules.proxy_for("http://127.0.0.1:8000/") is None
        assert rules.proxy_for("http://localhost/") is None


def test_explicit_proxy_serves_every_host() -> None:
    """An explicit proxy is for all; an empty one means none."""
    assert ProxyRules.for_all("proxy.example:3128").proxy_for("https://h/") == PROXY
    assert ProxyRules.for_all("").proxy_for("https://h/") is None
