"""Claims about what a change breaks for others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.core.labels import Label
from wheelfit.installation.broken_requirements import find_broken_requirements
from wheelfit.installation.installed import Installed
from wheelfit.installation.plan import Plan
from wheelfit.resolution.resolution import Pin
from wheelfit.testing.wheels import build_wheel

ENVIRONMENT = {"python_version": "3.13", "sys_platform": "linux"}


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., Installed]:
    """Return a function that puts metadata where an installed distribution has it."""

    def put(name: str, version: str = "1", *needs: str, label: Label | None = None) -> Installed:
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {need}" for need in needs]
        (folder / "METADATA").write_text("\n".join(lines) + "\n")
        return Installed(canonicalize_name(name), Version(version), tmp_path, folder, label)

    return put


@pytest.fixture
def click_7(tmp_path: Path, pin: Callable[..., Pin]) -> Pin:
    """Return the pin of click 7."""
    return pin(build_wheel(tmp_path, "click", "7"))


class TestBreakages:
    """What of those that stay is left without what it needs."""

    def test_replaced(self, put: Callable[..., Installed], click_7: Pin) -> None:
        """Who needs another version than the one that comes is named with it."""
        old, flask = put("click", "8"), put("flask", "3", "click>=8", "jinja2")
        plan = Plan(install=(click_7,), remove=(old,))
        (broken_requirement,) = find_broken_requirements(plan, [old, flask], ENVIRONMENT)
        assert str(broken_requirement) == "flask 3 needs click>=8, but click 7 will be installed"
        assert broken_requirement.to_mapping() == {
            "name": "flask",
            "version": "3",
            "requirement": "click>=8",
            "installed": "7",
        }

    @pytest.mark.parametrize("need", ["Zope.Interface>1", "zope_interface>1", "ZOPE--interface >1"])
    def test_any_spelling(self, put: Callable[..., Installed], need: str) -> None:
        """A need counts however it spells the name, and a longer name is another one."""
        gone = put("zope-interface", "8")
        plan = Plan(remove=(gone,))
        needing, other = put("one", "1", need), put("two", "1", "zope-interface-more")
        (broken_requirement,) = find_broken_requirements(plan, [gone, needing, other], ENVIRONMENT)
        assert broken_requirement.dependent == needing

    def test_folded_metadata(self, put: Callable[..., Installed]) -> None:
        """A need counts where its line is broken."""
        gone, needing = put("click", "8"), put("one", "1", "\n click>1")
        (broken_requirement,) = find_broken_requirements(
            Plan(remove=(gone,)), [gone, needing], ENVIRONMENT
        )
        assert str(broken_requirement.requirement) == "click>1"

    def test_removed(self, put: Callable[..., Installed]) -> None:
        """Who needs what goes is named; who goes too is not."""
        click, flask, other = put("click", "8"), put("flask", "3", "click"), put("x", "1", "click")
        (broken_requirement,) = find_broken_requirements(
            Plan(remove=(click, other)), [click, flask, other], ENVIRONMENT
        )
        assert str(broken_requirement) == "flask 3 needs click, but click will be removed"
        assert broken_requirement.to_mapping()["installed"] is None

    def test_hidden(self, put: Callable[..., Installed]) -> None:
        """What was hidden behind the removed one is found afterwards and may do."""
        click, base, flask = put("click", "8"), put("click", "9"), put("flask", "3", "click>=8")
        assert (
            find_broken_requirements(Plan(remove=(click,)), [click, base, flask], ENVIRONMENT) == ()
        )

    @pytest.mark.parametrize(
        "need",
        [
            "click>=7",
            "click>=8; sys_platform == 'win32'",
            "click>=8; extra == 'new'",
            "other>=8",
            "click>=",
        ],
    )
    def test_nothing(self, put: Callable[..., Installed], click_7: Pin, need: str) -> None:
        """Needs that are met, do not apply, speak of others or are unreadable cause no alarm."""
        flask = put("flask", "3", need)
        assert find_broken_requirements(Plan(install=(click_7,)), [flask], ENVIRONMENT) == ()

    def test_prerelease(self, put: Callable[..., Installed], click_7: Pin) -> None:
        """An unready version of the right range meets a need, as pip has it."""
        early, flask = put("click", "8.1rc1"), put("flask", "3", "click>=8")
        gone = put("other", "1")
        assert (
            find_broken_requirements(Plan(remove=(gone,)), [early, flask, gone], ENVIRONMENT) == ()
        )
        assert find_broken_requirements(
            Plan(install=(click_7,), remove=(early,)), [early, flask], ENVIRONMENT
        )

    def test_variant_markers(self, put: Callable[..., Installed], click_7: Pin) -> None:
        """Needs that depend on what the machine supports are left out (F-103)."""
        need = "click>=8; 'x' in variant_namespaces"
        plan = Plan(install=(click_7,))
        variant = put("fast", "1", need, label=Label("v3"))
        assert find_broken_requirements(plan, [variant], ENVIRONMENT) == ()
        plain = put("slow", "1", "click>=8; 'x' not in variant_namespaces")
        assert len(find_broken_requirements(plan, [plain], ENVIRONMENT)) == 1
