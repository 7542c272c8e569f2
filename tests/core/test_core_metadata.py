"""Core metadata: tolerant reading, and minimal editing."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from wheelfit.core.core_metadata import edit_metadata, read_metadata, without_variant_markers
from wheelfit.core.markers import VariantContext
from wheelfit.core.properties import PropertySet
from wheelfit.errors import InvalidRequirement
from wheelfit_runtime.errors import InvalidWheel

CU128 = VariantContext(
    "cu128", PropertySet.from_mapping({"nvidia": {"sm_arch": ["80_real", "90_real"]}})
)
MINIMAL = b"Metadata-Version: 2.4\nName: a\nVersion: 1\n"


def metadata(*lines: str) -> bytes:
    """Make metadata of a name, a version and some lines."""
    return MINIMAL + "".join(f"{line}\n" for line in lines).encode()


class TestRead:
    """Reading what an installation needs."""

    def test_fields(self) -> None:
        """Names are normalised, dependencies keep their order."""
        data = (
            b"Metadata-Version: 2.4\r\nname: My_Project\r\nVersion: 1.0.0\r\n"
            b"Future-Field: x\r\nRequires-Python: >=3.9\r\nProvides-Extra: Gpu_Extra\r\n"
            b"Requires-Dist: b\r\nRequires-Dist: a[x]>=1 ;\r\n    extra == 'gpu-extra'\r\n"
            b"\r\nRequires-Dist: not-this\r\n"
        )
        found = read_metadata(data, "w.whl")
        assert found.name == "my-project"
        assert found.version == Version("1.0")
        assert found.requires_python == SpecifierSet(">=3.9")
        assert found.provides_extra == {"gpu-extra"}
        assert [str(item) for item in found.requires] == ["b", 'a[x]>=1; extra == "gpu-extra"']

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"", "no Name"),
            (b"Version: 1\n", "no Name"),
            (b"Name: a\n", "no Version"),
            (b"Name: a\nVersion: new\n", "invalid Version 'new'"),
        ],
    )
    def test_name_and_version_are_required(self, data: bytes, message: str) -> None:
        """Without them the error names the wheel."""
        with pytest.raises(InvalidWheel, match=message) as excinfo:
            read_metadata(data, "w.whl")
        assert excinfo.value.where == "w.whl"

    def test_invalid_dependency(self) -> None:
        """The release can be listed; reading its dependencies raises an error with the text."""
        found = read_metadata(metadata("Requires-Dist: b", "Requires-Dist: c (>=1.*)"), "w.whl")
        assert found.version == Version("1")
        with pytest.raises(InvalidRequirement) as excinfo:
            _ = found.requires
        assert excinfo.value.where == "w.whl"
        assert excinfo.value.source == "c (>=1.*)"

    def test_invalid_requires_python(self) -> None:
        """It is noted, as other tools install such old releases."""
        found = read_metadata(metadata("Requires-Python: >=3.6.*"), "w.whl")
        assert found.requires_python is None

    def test_other_encodings(self) -> None:
        """An author's name in an old encoding is no error."""
        found = read_metadata(MINIMAL + b"Author: M\xfcller\nRequires-Dist: b\n", "w.whl")
        assert found.requires_texts == ("b",)

    def test_header_ends_like_an_e_mail(self) -> None:
        """The header ends at an empty line, or at the first line that is not a field."""
        assert read_metadata(MINIMAL + b"\nRequires-Dist: b\n", "w").requires == ()
        assert read_metadata(MINIMAL + b"no field\nRequires-Dist: b\n", "w").requires == ()


class TestWithoutVariantMarkers:
    """Removing variant markers that can be decided."""

    def test_edited_lines(self) -> None:
        """F-107, B-40: false dependencies and true parts are removed, other bytes kept."""
        data = (
            b"Metadata-Version: 2.4\r\n"
            b"Name: A_b\n"
            b"Version: 1\r"
            b"Requires-Dist:   X >= 1;variant_label=='cu128'\r\n"
            b"REQUIRES-DIST: y[E_1]  ; variant_label == '' or\n"
            b"\t extra=='F_1'  \r\n"
            b"Requires-Dist: z; variant_label == ''\n"
            b"Requires-Dist: kept ;  os.name=='nt'  \n"
            b"Author: M\xfcller variant_label\n"
            b'Requires-Dist: u @ https://h/variant_label;x ; "nvidia" in variant_namespaces'
            b" and os_name=='nt'\n"
            b"\n"
            b"Requires-Dist: z; variant_label == ''\r\n"
            b"the end"
        )
        assert without_variant_markers(data, CU128) == (
            b"Metadata-Version: 2.4\r\n"
            b"Name: A_b\n"
            b"Version: 1\r"
            b"Requires-Dist:   X >= 1\r\n"
            b'REQUIRES-DIST: y[E_1]  ; extra == "f-1"\r\n'
            b"Requires-Dist: kept ;  os.name=='nt'  \n"
            b"Author: M\xfcller variant_label\n"
            b'Requires-Dist: u @ https://h/variant_label;x ; os_name == "nt"\n'
            b"\n"
            b"Requires-Dist: z; variant_label == ''\r\n"
            b"the end"
        )

    @pytest.mark.parametrize("end", ["", "\n", "\r\n"])
    def test_last_line(self, end: str) -> None:
        """A missing line end stays missing."""
        data = MINIMAL + f"Requires-Dist: b; variant_label == 'cu128'{end}".encode()
        assert without_variant_markers(data, CU128) == MINIMAL + f"Requires-Dist: b{end}".encode()

    def test_line_ends_do_not_merge(self) -> None:
        """A removal never joins a carriage return with an empty line."""
        data = b"Name: a\rRequires-Dist: b; variant_label == ''\n\nVersion: in the body"
        assert without_variant_markers(data, CU128) == b"Name: a\r\n\nVersion: in the body"

    def test_identical_without_variant_markers(self) -> None:
        """B-40: metadata without variant markers is unchanged, including its faults."""
        data = metadata("Requires-Dist: b (>=1.*)", "Requires-Dist: c; os_name == 'nt'")
        assert without_variant_markers(data, VariantContext.PLAIN) is data

    def test_word_in_a_string_is_no_marker(self) -> None:
        """Only variables count, not words in strings."""
        data = metadata("Requires-Dist: b; os_name == 'variant_label'")
        assert without_variant_markers(data, VariantContext.PLAIN) == data

    def test_undecided_parts_stay(self) -> None:
        """B-41: at build time one of several values is undecided."""
        data = metadata(
            "Requires-Dist: b; 'nvidia::sm_arch::80_real' in variant_properties"
            " and variant_label == 'cu128'"
        )
        assert without_variant_markers(data, CU128, filtered=False) == metadata(
            'Requires-Dist: b; "nvidia::sm_arch::80_real" in variant_properties'
        )

    def test_invalid_variant_marker(self) -> None:
        """A misspelt variant marker is an error that names the wheel."""
        data = metadata("Requires-Dist: b; variant_lable == ''")
        with pytest.raises(InvalidRequirement) as excinfo:
            without_variant_markers(data, VariantContext.PLAIN, where="w.whl")
        assert excinfo.value.where == "w.whl"
        assert excinfo.value.hint == "did you mean variant_label?"


def replaced(data: bytes, dependencies: list[str]) -> bytes:
    """Return metadata with other dependencies."""
    return edit_metadata(data, changed=lambda _text: None, added=dependencies)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_other_dependencies(end: bytes) -> None:
    """New dependencies stand at the place of the first; other bytes are unchanged."""
    lines = [
        b"Name: a",
        b"Requires-Dist: b",
        b"Version: 1",
        b"Requires-Dist: c;",
        b"  x",
        b"",
        b"d",
    ]
    changed = replaced(end.join(lines), ["e", "f ; python_version < '4'"])
    wanted = [b"Name: a", b"Requires-Dist: e", b"Requires-Dist: f ; python_version < '4'"]
    assert changed == end.join([*wanted, b"Version: 1", b"", b"d"])


def test_first_dependencies() -> None:
    """They are added at the end of the header."""
    assert replaced(b"Name: a", ["b"]) == b"Name: a\nRequires-Dist: b\n"
    assert replaced(b"Name: a\n\ntext", ["b"]) == b"Name: a\nRequires-Dist: b\n\ntext"
