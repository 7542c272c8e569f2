"""Operations on wheels and projects, called without a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit.errors import UsageError
from wheelfit.operations.context import Context, Reporter
from wheelfit.operations.init import InitRequest, init
from wheelfit.operations.matrix import MatrixRequest, matrix
from wheelfit.operations.repack import RepackRequest, repack
from wheelfit.operations.wheel_contents import WheelContentsRequest, read_contents
from wheelfit.operations.wheels import MakeVariantRequest, RelabelRequest, make_variant, relabel
from wheelfit.testing.wheels import build_wheel


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Write a plain wheel."""
    return build_wheel(tmp_path / "in", "demo", "1.0", requires=["torch"])


class Remarks(Reporter):
    """A reporter that keeps warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        """Keep a warning."""
        self.warnings.append(text)


def test_reports_are_values(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wheels are made, renamed, repacked and shown by requests alone, and nothing is printed."""
    context = Context()
    static = ("blas :: library :: mkl",)
    made = make_variant(
        MakeVariantRequest(
            wheels=(str(wheel),), property=static, static=static, output=str(tmp_path)
        ),
        context,
    )
    (variant,) = made.wheels
    renamed = relabel(RelabelRequest(wheels=(str(variant.path),), label="fast"), context)
    edits = RepackRequest(
        wheels=(str(renamed.wheels[0].path),),
        set_version="2.0",
        remove_dependency=("torch",),
        output=str(tmp_path / "out"),
        index_file=True,
    )
    report = repack(edits, context)
    assert report.index_files == (tmp_path / "out" / "demo-2.0-variants.json",)
    (shown,) = read_contents(WheelContentsRequest(wheels=(str(tmp_path / "out"),)), context).wheels
    assert shown.filename.label == "fast"
    assert shown.properties == ["blas :: library :: mkl"]
    assert str(shown.core.version) == "2.0"
    assert not shown.core.requires
    assert capsys.readouterr() == ("", "")


def test_what_deserves_notice_goes_to_the_reporter(wheel: Path, tmp_path: Path) -> None:
    """Properties of an unknown provider are written with a warning to the reporter."""
    remarks = Remarks()
    request = MakeVariantRequest(
        wheels=(str(wheel),),
        property=("acme :: level :: 1",),
        provider=("acme=acme-provider",),
        output=str(tmp_path),
    )
    assert make_variant(request, Context(reporter=remarks)).wheels[0].is_new
    expected = "properties of acme are not validated: its provider is not available"
    assert expected in remarks.warnings


def test_a_project_without_a_command_line(tmp_path: Path) -> None:
    """A table is written by a request, and a second time nothing changes."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
    request = InitRequest(folder=str(tmp_path), variant=("v3=x86_64 :: level :: v3",))
    first, second = init(request, Context()), init(request, Context())
    assert (first.is_written, first.has_variants) == (True, True)
    assert (second.is_changed, second.is_written) == (False, False)
    with pytest.raises(UsageError, match=r"has no \[tool.wheelfit.matrix\]"):
        matrix(MatrixRequest(project=str(tmp_path)), Context())
