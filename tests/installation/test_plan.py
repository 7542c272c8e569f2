"""Claims about deciding what changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.core.labels import Label
from wheelfit.installation.installed import Installed
from wheelfit.installation.plan import Plan, plan, plan_sync, plan_uninstall
from wheelfit.resolution.resolution import Pin, Resolution
from wheelfit.sources.page import WheelOrigin
from wheelfit.testing.wheels import build_wheel, release_document

X86 = {"x86_64": {"level": ["v3"]}}


def installed(name: str, version: str = "1", **changes: object) -> Installed:
    """Return an installed distribution."""
    site = Path("/env/site-packages")
    entry = Installed(
        canonicalize_name(name), Version(version), site, site / f"{name}-{version}.dist-info"
    )
    return replace(entry, **changes)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, pin: Callable[..., Pin]) -> Pin:
    """Return the pin of a plain wheel, demo 1."""
    return pin(build_wheel(tmp_path_factory.mktemp("plain"), "demo", "1"))


@pytest.fixture(scope="module")
def variant(tmp_path_factory: pytest.TempPathFactory, pin: Callable[..., Pin]) -> Pin:
    """Return the pin of a variant wheel, demo 1 with the label v3."""
    document = release_document({"v3": X86}, static=X86)
    folder = tmp_path_factory.mktemp("variant")
    return pin(build_wheel(folder, "demo", "1", label="v3", document=document))


V3 = Label("v3")


class TestPlan:
    """Comparing what was resolved with what is there."""

    def test_new(self, plain: Pin) -> None:
        """What is not there is installed."""
        assert plan(Resolution((plain,)), []) == Plan(install=(plain,))

    def test_other_version(self, plain: Pin) -> None:
        """Another version is replaced; what nobody speaks of stays untouched."""
        old = installed("demo", "0.9")
        found = plan(Resolution((plain,)), [old, installed("other")])
        assert found == Plan(install=(plain,), remove=(old,))

    def test_same(self, plain: Pin, variant: Pin) -> None:
        """The same version with the same label stays."""
        entry = installed("demo")
        assert plan(Resolution((plain,)), [entry]) == Plan(keep=(entry,))
        entry = installed("demo", label=V3)
        assert plan(Resolution((variant,)), [entry]) == Plan(keep=(entry,))

    def test_other_label(self, plain: Pin, variant: Pin) -> None:
        """F-96: the same version selected anew with another label is replaced."""
        for pin, entry in (
            (variant, installed("demo")),
            (plain, installed("demo", label=V3)),
            (variant, installed("demo", label=Label("v2"))),
        ):
            assert plan(Resolution((pin,)), [entry]) == Plan(install=(pin,), remove=(entry,))

    def test_kept_by_the_resolver(self, plain: Pin) -> None:
        """F-96: what the resolver keeps is kept, whatever its variant."""
        entry = installed("torch", label=V3)
        found = plan(Resolution((plain,), kept=(entry.for_resolver(),)), [entry])
        assert found == Plan(install=(plain,), keep=(entry,))

    def test_other_hash(self, plain: Pin) -> None:
        """A wheel of the same name with another known hash is another wheel."""
        entry = installed("demo", hashes={"sha256": "00"})
        assert plan(Resolution((plain,)), [entry]).install == (plain,)
        entry = installed("demo", hashes=dict(plain.file.hashes))
        assert plan(Resolution((plain,)), [entry]).keep == (entry,)
        entry = installed("demo", hashes={"md5": "00"})
        assert plan(Resolution((plain,)), [entry]).keep == (entry,)

    def test_given(self, plain: Pin) -> None:
        """A wheel that the user named is installed again, as pip does."""
        entry = installed("demo")
        found = plan(Resolution((replace(plain, is_direct=True),)), [entry])
        assert found.remove == (entry,)

    def test_editable(self, plain: Pin) -> None:
        """A release replaces an editable installation of the same version."""
        assert plan(Resolution((plain,)), [installed("demo", editable=True)]).install

    def test_reinstall(self, plain: Pin) -> None:
        """On demand everything is replaced."""
        entry = installed("demo")
        assert plan(Resolution((plain,)), [entry], reinstall=True).remove == (entry,)

    def test_outside(self, plain: Pin) -> None:
        """What lies in the base of the environment is hidden, not removed."""
        base = installed("demo", "0.9", outside=True)
        assert plan(Resolution((plain,)), [base]) == Plan(install=(plain,))
        # If the right version is there, it is good enough.
        base = installed("demo", outside=True)
        assert plan(Resolution((plain,)), [base]) == Plan(keep=(base,))

    def test_duplicates(self, plain: Pin) -> None:
        """Leftovers of an interrupted upgrade go together."""
        entries = [installed("demo", "0.8"), installed("demo", "0.9")]
        assert plan(Resolution((plain,)), entries).remove == tuple(entries)

    def test_duplicates_of_the_right_version(self, plain: Pin) -> None:
        """The version is installed again, since the files may be those of the leftover."""
        for other in (installed("demo", "0.9"), installed("demo", "2")):
            entries = [installed("demo"), other]
            found = plan(Resolution((plain,)), entries)
            assert found == Plan(install=(plain,), remove=tuple(entries))
        legacy = installed("demo", "0.9", legacy=True)  # which cannot be removed
        assert plan(Resolution((plain,)), [installed("demo"), legacy]).keep == (installed("demo"),)

    def test_truth(self, plain: Pin) -> None:
        """A plan is true if it changes something."""
        assert plan(Resolution((plain,)), [])
        assert not plan(Resolution((plain,)), [installed("demo")])
        assert Plan(remove=(installed("demo"),))


class TestSync:
    """Comparing what a lock holds with what is there."""

    @pytest.mark.parametrize("hashes", ["sha256=00", ["sha256"], 1])
    def test_invalid_record_of_an_archive(self, plain: Pin, hashes: object) -> None:
        """A ``direct_url.json`` with invalid hashes proves nothing."""
        url = "https://fake.invalid/demo-1.tar.gz"
        direct_url = {"url": url, "archive_info": {"hashes": {"sha256": "00"}}}
        file = replace(plain.file, origin=WheelOrigin("demo-1.tar.gz", direct_url))
        source = replace(plain, file=file)
        entry = installed("demo", direct_url={"url": url, "archive_info": {"hashes": hashes}})
        assert plan_sync(Resolution((source,)), [entry]).remove == (entry,)
        entry = installed("demo", direct_url=direct_url)
        assert plan_sync(Resolution((source,)), [entry]).keep == (entry,)

    def test_what_is_not_named_goes(self, plain: Pin) -> None:
        """All of it in one plan with what is replaced, except what is spared."""
        old, stranger, pip = installed("demo", "0.9"), installed("left"), installed("pip")
        sync = plan_sync(Resolution((plain,)), [old, stranger, pip], staying={pip.name})
        assert sync == Plan(install=(plain,), remove=(old, stranger))

    def test_inexactly(self, plain: Pin) -> None:
        """Without anything spared nothing goes but what is replaced."""
        entry = installed("demo")
        assert plan_sync(Resolution((plain,)), [entry, installed("left")]) == Plan(keep=(entry,))

    @pytest.mark.parametrize(
        "stranger", [installed("left", editable=True), installed("left", outside=True)]
    )
    def test_what_no_lock_can_name(self, plain: Pin, stranger: Installed) -> None:
        """What points to a source tree, or is only looked at, stays."""
        assert not plan_sync(Resolution((plain,)), [installed("demo"), stranger], staying=())

    def test_known_by_its_hash(self, plain: Pin) -> None:
        """F-124: what was named by a URL stays if it is known to be that file."""
        given = replace(plain, is_direct=True)
        same = installed("demo", hashes=dict(plain.file.hashes))
        assert plan_sync(Resolution((given,)), [same]) == Plan(keep=(same,))
        assert plan(Resolution((given,)), [same]).install == (given,)
        unknown = installed("demo")
        assert plan_sync(Resolution((given,)), [unknown]).remove == (unknown,)
        other = installed("demo", hashes={"sha256": "00"})
        assert plan_sync(Resolution((given,)), [other]).remove == (other,)


class TestUninstall:
    """Finding what to remove."""

    def test_found(self) -> None:
        """By name, each once, what is missing apart."""
        a, b = installed("a"), installed("b")
        names = [canonicalize_name(name) for name in ("B", "a", "b", "c")]
        assert plan_uninstall(names, [a, b, installed("d")]) == (Plan(remove=(b, a)), ("c",))

    def test_outside(self) -> None:
        """What lies outside is chosen only if there is nothing else."""
        own, base = installed("a"), installed("a", "2", outside=True)
        (name,) = {own.name}
        assert plan_uninstall([name], [own, base])[0].remove == (own,)
        assert plan_uninstall([name], [base])[0].remove == (base,)


def test_mapping(variant: Pin) -> None:
    """The contract of ``install --dry-run --json``."""
    old, kept = installed("demo", "0.9"), installed("torch", label=Label("cu128"))
    found = Plan(install=(variant,), remove=(old,), keep=(kept,)).to_mapping()
    assert json.loads(json.dumps(found)) == {
        "install": [
            {
                "name": "demo",
                "version": "1",
                "filename": "demo-1-py3-none-any-v3.whl",
                "label": "v3",
                "url": variant.file.url,
                "size": variant.file.size,
                "hashes": dict(variant.file.hashes),
                "built_from": None,
                "reason": "the only wheel",
            }
        ],
        "remove": [{"name": "demo", "version": "0.9", "label": None, "reason": None}],
        "keep": [{"name": "torch", "version": "1", "label": "cu128"}],
    }
