"""What is known of the families: that it hangs together."""

from __future__ import annotations

import pytest

from wheelfit_runtime.errors import UserError
from wheelfit_runtime.libraries.toolkits import FAMILY_NAMES, LibraryFamily, family_named

FAMILIES = [family_named(name) for name in FAMILY_NAMES]


@pytest.mark.parametrize("family", FAMILIES, ids=FAMILY_NAMES)
def test_hangs_together(family: LibraryFamily) -> None:
    """What components need is there in the same major version, and needs nothing in a circle."""

    def needed(name: str, major: str, above: tuple[str, ...] = ()) -> set[str]:
        assert name not in above
        component = family.components[name]
        assert component.project(major), (name, major)
        found = {name}
        for need in component.needs:
            only, _, other = need.rpartition(":")
            if only in ("", major):
                found |= needed(other, major, (*above, name))
        return found

    majors = {project for part in family.components.values() for project in part.projects}
    for major in majors:
        for name, component in family.components.items():
            if component.project(major):
                assert name in needed(name, major)
    assert set(family.default_components) <= set(family.components)


@pytest.mark.parametrize("family", FAMILIES, ids=FAMILY_NAMES)
def test_versions_can_be_found(family: LibraryFamily) -> None:
    """Each component stands in the family's table, has versions of its own, or the family's."""
    for name, component in family.components.items():
        for major in component.projects:
            in_table = bool(family.metapackage and component.extra_of(major))
            assert not (in_table and component.specifier), name
            assert in_table or component.specifier or not family.metapackage, name


def test_a_family_that_is_none() -> None:
    """Whoever asks for an unknown family is told which there are."""
    with pytest.raises(UserError) as excinfo:
        family_named("banana")
    assert excinfo.value.note == "known: cuda, oneapi, onetbb"
