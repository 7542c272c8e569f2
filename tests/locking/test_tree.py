"""Who needs whom in a lock."""

from __future__ import annotations

import pytest
from locking.entries import TARGET, lock_table, lock_world, locked, needing, plain_entry, world
from packaging.utils import canonicalize_name

from wheelfit.locking.document import Lock
from wheelfit.locking.locking import new_lock
from wheelfit.locking.selection import LockCandidates
from wheelfit.locking.tree import Tree, tree_of_lock, tree_of_selection
from wheelfit.testing.detectors import FixedDetector


def needs(tree: Tree, name: str) -> dict[str, list[str | None] | str]:
    """Return what a package needs: always, or with which labels."""
    (package,) = [package for package in tree.packages if package.name == name]
    return {
        branch.name: "always" if branch.by_all_wheels else list(branch.labels)
        for branch in package.branches
    }


class TestOfAll:
    """What any machine could get."""

    def test_needs_stay_with_their_labels(self) -> None:
        """F-121: what only some labels need is never said of the release."""
        tree = tree_of_lock(lock_world())
        assert needs(tree, "fastfft") == {
            "numbers": "always",
            "gpu-lib": ["cu12.6", "cu12.8"],
            "cpu-lib": ["v4"],
        }
        assert tree.notes == ()
        (fastfft,) = [package for package in tree.packages if package.name == "fastfft"]
        assert [(label.label, label.condition) for label in fastfft.labels][:2] == [
            ("cu12.6", "needs CUDA driver >= 12.6"),
            ("cu12.8", "needs CUDA driver >= 12.8"),
        ]
        assert fastfft.labels[-1].label is None
        assert [str(root.requirement) for root in tree.roots or ()] == ["fastfft"]

    def test_entries_of_one_name_keep_their_markers(self) -> None:
        """A need leads to each entry of that name; their markers say which one counts."""
        tree = tree_of_lock(
            Lock.of(
                lock_table(
                    needing("top", "low"),
                    needing("low", marker="sys_platform == 'linux'"),
                    needing("low", marker="sys_platform == 'win32'"),
                )
            )
        )
        assert tree.packages[0].branches[0].positions == (1, 2)
        assert str(tree.packages[2].marker) == 'sys_platform == "win32"'

    def test_the_entry_that_is_meant_is_told_by_its_version(self) -> None:
        """Where a name has an entry for each of several Pythons, who needs which one is kept."""
        old = needing("low", marker="python_version < '3.12'")
        new = needing("low", marker="python_version >= '3.12'", version="2")
        top = needing("top", "low", dependencies=[{"name": "low", "version": "2"}])
        tree = tree_of_lock(Lock.of(lock_table(old, new, top)))
        assert tree.packages[2].branches[0].positions == (1,)

    def test_what_others_write_is_not_taken_for_more(self) -> None:
        """The table of PEP 751 says what some wheel needs, not which; without one it is unknown."""
        repository = world()
        entry = locked(repository, "fastfft", "2.1", with_needs=False).table
        entry = {"name": entry["name"], "version": entry["version"], **entry}
        entry["dependencies"] = [{"name": "gpu-lib"}, {"name": "gone", "version": "3"}]
        plain = plain_entry("gpu-lib", dependencies=[{"name": "Low", "version": "1"}])
        tree = tree_of_lock(Lock.of(lock_table(entry, plain, plain_entry("low"))))
        known = {package.name: package.granularity for package in tree.packages}
        assert known == {"fastfft": "by-release", "gpu-lib": "by-label", "low": "unknown"}
        assert needs(tree, "gpu-lib") == {"low": "always"}
        (gone,) = [branch for branch in tree.packages[0].branches if branch.name == "gone"]
        assert gone.positions == ()
        assert tree.notes == (
            "the lock does not record the requirements that it was made for",
            "the lock does not record the requirements of low",
            "the lock does not record which wheels of fastfft have which requirements",
        )

    def test_nothing_is_known(self) -> None:
        """A lock of uv or pip says nothing of needs; every package stands by itself."""
        tree = tree_of_lock(Lock.of(lock_table(plain_entry("a"), plain_entry("b"))))
        assert tree.start_positions() == (0, 1)
        assert "the requirements of its packages" in tree.notes[1]

    def test_a_label_that_is_left_out_makes_it_unknown(self) -> None:
        """Where the table lacks a label that is listed, the others would be half of the truth."""
        table = plain_entry("a", tool={"wheelfit": {"variant-dependencies": {"v3": ["b"]}}})
        tree = tree_of_lock(Lock.of(lock_table(table, plain_entry("b"))))
        assert tree.packages[0].granularity == "unknown"
        assert tree.packages[0].branches == ()

    @pytest.mark.parametrize("roots", [("a",), None])
    def test_every_package_is_met(self, roots: tuple[str, ...] | None) -> None:
        """Circles too, though nothing leads into them."""
        lock = new_lock(
            [needing("a", "b"), needing("b"), needing("c", "d"), needing("d", "c")], roots=roots
        )
        tree = tree_of_lock(lock)
        assert tree.start_positions() == (0, 2)
        assert tree.reached_within(0) == {0, 2}
        assert tree.reached_within(1) == {0, 1, 2, 3}

    def test_what_was_asked_for_comes_first(self) -> None:
        """Also where others need it."""
        tree = tree_of_lock(new_lock([needing("a"), needing("b", "c"), needing("c")], roots=["c"]))
        assert tree.start_positions() == (2, 0, 1)

    def test_circles_that_lead_to_others(self) -> None:
        """Each is begun with once, whatever was met before."""
        circles = [needing("a", "b"), needing("b", "a"), needing("c", "a", "d"), needing("d", "c")]
        assert tree_of_lock(new_lock(circles)).start_positions() == (0, 2)
        turned = [needing("a", "b", "c"), needing("b", "a"), needing("c", "d"), needing("d", "c")]
        assert tree_of_lock(new_lock(turned)).start_positions() == (0,)


class TestParts:
    """Parts of a tree."""

    def test_above(self) -> None:
        """Who needs a package, in so many steps."""
        tree = tree_of_lock(
            new_lock(
                [needing("a", "b"), needing("b", "c"), needing("c"), needing("d")], roots=["a", "d"]
            )
        )
        name = canonicalize_name("c")
        assert tree.dependents_of(name) == {0, 1, 2}
        assert tree.dependents_of(name, 1) == {1, 2}
        cut = tree.restricted_to(tree.dependents_of(name, 1))
        assert [package.name for package in cut.packages] == ["b", "c"]
        assert cut.packages[0].branches[0].positions == (1,)
        assert cut.roots == ()

    def test_a_cut_keeps_what_the_lock_does_not_have(self) -> None:
        """What is needed and not locked stays said."""
        tree = tree_of_lock(new_lock([needing("a", "gone", "b"), needing("b")], roots=["a"]))
        cut = tree.restricted_to([0])
        assert [branch.name for branch in cut.packages[0].branches] == ["gone"]


class TestOfOne:
    """What one machine gets."""

    def test_the_chosen_and_what_they_need(self) -> None:
        """The label that was chosen, why, and only what that wheel needs."""
        lock = lock_world()
        machine = FixedDetector({"x86_64": {"level": ["v4", "v3"]}})
        tree = tree_of_selection(lock, LockCandidates(lock, TARGET, machine).select())
        assert needs(tree, "fastfft") == {"cpu-lib": "always", "numbers": "always"}
        (fastfft,) = [package for package in tree.packages if package.name == "fastfft"]
        assert fastfft.chosen is not None
        assert fastfft.chosen.label == "v4"
        assert fastfft.reason == "best fit: x86_64 :: level :: v4"
        assert fastfft.requested
        assert tree.excluded == ((canonicalize_name("gpu-lib"), "no chosen wheel needs it"),)
