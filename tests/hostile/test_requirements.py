"""Hostile requirements: on the command line, in files, and in what wheels need."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile.conftest import Site
from hostile.sampling import mostly_corpora

from wheelfit.testing.wheels import build_wheel

LONG = "9" * 5000
TEXTS = [
    "",
    " ",
    "\0",
    "demo\0",
    "demo\n-i http://evil.invalid",
    "demo\r\nother",
    "\x1b[2Jdemo",
    "../demo-1-py3-none-any.whl",
    "/etc/passwd",
    "demo @ file:///etc/passwd",
    "demo @ file:///etc/shadow.whl",
    "demo @ javascript:alert(1)",
    "demo @ data:,",
    "demo @ git+https://evil.invalid/x",
    "demo @ ftp://evil.invalid/demo-1-py3-none-any.whl",
    "demo @ http://[",
    "demo @ http:///demo-1-py3-none-any.whl",
    "demo @ http://127.0.0.1:99999/demo-1-py3-none-any.whl",
    "file:///etc/passwd",
    "file://evil.invalid/share/demo-1-py3-none-any.whl",
    "http://127.0.0.1:1/..%2f..%2fdemo-1-py3-none-any.whl",
    "http://127.0.0.1:1/%252e%252e%252fdemo-1-py3-none-any.whl",
    "demo==" + LONG,
    "demo==1." + LONG,
    "demo~=" + LONG + ".1",
    "demo>=1+" + LONG,
    "demo===" + LONG,
    "demo" + " " * 100_000 + "!",
    "demo[" + "a," * 50_000,
    "demo[a" + " " * 100_000,
    "demo" + "-" * 100_000,
    "d" * 1_000_000,
    "demo==" + ",==".join(["1"] * 50_000) + "!",
    "demo; " + "(" * 100_000,
    "demo; " + "(" * 100_000 + "python_version > '3'" + ")" * 100_000,
    "demo; " + " and ".join(["python_version > '3'"] * 20_000) + " and",
    "demo; python_version > '" + LONG + "'",
    "demo; python_version > '\\N{evil}'",
    "demo; 'x' * 10**9 > 'y'",
    "demo; __import__('os').abort()",
    "demo; variant_label == 'x'",
    "demo; 'nvidia' in variant_namespaces",
    "demo[../evil]",
    "demo[a]] b",
    "d\u0435mo",
    "\uff44\uff45\uff4d\uff4f",
    "demo\u200b",
    "demo==1\udcff",
    "-demo",
    "--python=/evil",
    "demo --hash=sha256:00",
]
IDS = [f"{number}: {ascii(text)[:40]}" for number, text in enumerate(TEXTS)]


@pytest.fixture(autouse=True)
def flat(site: Site) -> None:
    """Be quick: nothing here depends on the kind of environment."""
    site.flat = True


class TestEverywhere:
    """No text does more than being refused, or meaning a project that nobody has."""

    @pytest.mark.parametrize("text", TEXTS, ids=IDS)
    def test_as_an_argument(self, site: Site, text: str) -> None:
        """Exit code 1 (no requirement), 2 (an option), 3 (nothing of the kind), 4 or 5."""
        site.shelf.put(build_wheel(site.wheels, "demo", "1"))
        result = site.attempt("install", "--json", "--timeout", "2", "--no-deps", "--", text)
        if result.code == 0:
            # A marker that is false asks for nothing; a true one for demo.
            assert text.startswith("demo; ")
        else:
            assert len(result.out) < 50_000
            assert "\x1b" not in result.out + result.err

    @pytest.mark.parametrize("text", mostly_corpora(TEXTS, IDS))
    def test_in_a_file(self, site: Site, text: str) -> None:
        """The same in a requirements file, where a line may also be an option."""
        path = site.folder / "work" / "requirements.txt"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        site.shelf.put(build_wheel(site.wheels, "demo", "1"))
        result = site.attempt("install", "--json", "--dry-run", "--timeout", "2", "-r", path)
        assert len(result.out) < 50_000

    @pytest.mark.parametrize("text", mostly_corpora(TEXTS, IDS))
    def test_as_a_dependency(self, site: Site, text: str) -> None:
        """F-94: a wheel that needs such a thing is not a candidate, or cannot be solved."""
        if "\n" in text or not text.strip() or "\udcff" in text:
            pytest.skip("no value of a header")
        site.shelf.put(build_wheel(site.wheels, "app", "1", requires=[text]))
        site.shelf.put(build_wheel(site.wheels, "demo", "1"))
        result = site.attempt("install", "--json", "--dry-run", "app")
        assert result.code in {0, 1, 3, 4}
        assert not {r.path for r in site.index.requests} & {"/etc/passwd", "/simple/evil/"}


class TestFiles:
    """Requirements files that reach for more than they should."""

    @pytest.mark.parametrize(
        "line",
        [
            "-r requirements.txt",
            "-c requirements.txt",
            "-r /etc/shadow",
            "-r /dev/zero",
            "-r http://127.0.0.1:1/evil.txt",
            "-r https://user:hunter2@evil.invalid/evil.txt",
            "-e .",
            "-e git+https://evil.invalid/x#egg=demo",
            "--no-such-option",
            "--trusted-host",
            "--target /evil",
            "--python /evil",
            "--hash sha256:00",
            "demo --hash=sha256:xyz",
            "demo --hash=md5:00",
            "demo --global-option=evil",
            "${HOME}",
            "demo \\",
        ],
    )
    def test_a_line(self, site: Site, line: str) -> None:
        """It is refused by name, and whatever is secret in it is not shown."""
        path = site.folder / "work" / "requirements.txt"
        path.write_text(f"{line}\n")
        result = site.attempt("install", "--json", "--timeout", "2", "-r", path)
        assert result.code
        assert "hunter2" not in result.out + result.err

    def test_nothing_at_great_length(self, site: Site) -> None:
        """Thousands of continued lines without a word ask for nothing."""
        path = site.folder / "work" / "requirements.txt"
        path.write_text("\\\n" * 10_000)
        assert "nothing to do" in site.run("install", "-r", path).out

    def test_a_deep_chain(self, site: Site) -> None:
        """Files that include each other thousands of times end in an error."""
        folder = site.folder / "work"
        for number in range(2000):
            (folder / f"{number}.txt").write_text(f"-r {number + 1}.txt\n")
        (folder / "2000.txt").write_text("demo\n")
        result = site.attempt("install", "--json", "--dry-run", "-r", folder / "0.txt")
        assert result.code in {1, 3}


def test_secrets_of_the_user_are_not_repeated(site: Site) -> None:
    """What the user typed into the wrong place is not shown in an error."""
    for text in (
        "demo @ https://user:hunter2@127.0.0.1:1/nothing",
        "https://user:hunter2@127.0.0.1:1/demo-1-py3-none-any.whl",
        "demo @ https://user:hunter2@[",
        "demo== https://user:hunter2@evil.invalid/",
    ):
        result = site.attempt("install", "--json", "--timeout", "2", text)
        assert result.code
        assert "hunter2" not in result.out + result.err, text
    result = site.attempt("install", "demo", "-i", "https://user:hunter2@127.0.0.1:1/simple/")
    assert "hunter2" not in result.out + result.err
    result = site.attempt("install", "demo", "-i", "user:hunter2@127.0.0.1:1/simple/")
    assert "hunter2" not in result.out + result.err


def test_nothing_in_the_working_folder_is_taken(site: Site) -> None:
    """A name is a name: what lies in the current folder has no say."""
    (site.folder / "work" / "demo").mkdir()
    wheel = build_wheel(site.folder / "work", "demo", "9")
    assert Path(wheel).exists()
    result = site.attempt("install", "--json", "demo")
    assert result.code == 3
