"""Text output of explanations."""

from __future__ import annotations

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.cli.output import Output
from wheelfit.cli.render.explanations import print_explanation
from wheelfit.core.filename import WheelFilename, parse_wheel_filename
from wheelfit.core.properties import PropertySet
from wheelfit.core.provider_lookup import ProviderPolicy
from wheelfit.core.selection import Outcome, Verdict
from wheelfit.operations.machine import ChosenMachine
from wheelfit.resolution.explain import Explanation
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.resolution_setup import linux_target
from wheelfit_runtime.platforms.features import Detection

MACHINE = ChosenMachine(
    "this machine", linux_target(), FixedDetector(), None, ProviderPolicy(), (), ()
)


def wheel(label: str | None = None, tag: str = "py3-none-any") -> WheelFilename:
    """Return the file name of a wheel."""
    return parse_wheel_filename(f"some-1.0-{tag}{f'-{label}' if label else ''}.whl")


def verdict(
    outcome: Outcome, reason: str, label: str | None = None, tag: str = "py3-none-any"
) -> Verdict:
    """Return a verdict on a wheel."""
    return Verdict(wheel(label, tag), outcome, reason)


def printed(
    output: Output, capsys: pytest.CaptureFixture[str], *verdicts: Verdict, **parts: object
) -> list[str]:
    """Return the printed lines of an explanation."""
    chosen = verdicts[0].filename if verdicts and verdicts[0].verdict == "chosen" else None
    explanation = Explanation(
        canonicalize_name("some"),
        Version("1.0"),
        chosen,
        candidates=verdicts,
        **parts,  # type: ignore[arg-type]
    )
    print_explanation(explanation, MACHINE, output)
    return capsys.readouterr().out.splitlines()


def test_chosen_wheel_is_first(capsys: pytest.CaptureFixture[str]) -> None:
    """The title has the file name; the properties follow, one line for each feature."""
    properties = PropertySet.from_mapping(
        {"nvidia": {"sm_arch": ["75_real", "80_real"], "cuda_version_lower_bound": ["12.8"]}}
    )
    lines = printed(Output(), capsys, verdict("chosen", "best fit", "cu128"), properties=properties)
    assert lines == [
        "some 1.0 for this machine: some-1.0-py3-none-any-cu128.whl",
        "  properties  nvidia :: cuda_version_lower_bound :: 12.8",
        "              nvidia :: sm_arch :: 75_real, 80_real",
        "  chosen      cu128  best fit",
    ]


@pytest.mark.parametrize("verbosity", [0, 1])
def test_sources_of_detections(verbosity: int, capsys: pytest.CaptureFixture[str]) -> None:
    """P-21: the source of each detection is shown with -v."""
    lines = printed(
        Output(verbosity=verbosity),
        capsys,
        verdict("chosen", "best fit", "cu128"),
        detections=(Detection("amd", source="not in host file node.toml"),),
    )
    told = ["  amd         unknown: not in host file node.toml"]
    assert lines[1:-1] == (told if verbosity else [])


def test_no_compatible_wheel(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a chosen wheel the title says so."""
    lines = printed(Output(), capsys, verdict("rejected", "needs a driver", "cu128"))
    assert lines == [
        "some 1.0: nothing fits this machine",
        "  rejected    cu128  needs a driver",
    ]


def test_wheels_of_one_label_share_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Wheels with equal labels and reasons are counted in one line."""
    verdicts = [
        verdict("chosen", "best fit", "cu128"),
        verdict("rejected", "yanked", "cu128", "cp311-cp311-linux_x86_64"),
        verdict("rejected", "yanked", "cu128", "py3-none-any"),
        verdict("rejected", "too large", "cu128"),
        verdict("rejected", "yanked"),
    ]
    assert printed(Output(), capsys, *verdicts)[1:] == [
        "  chosen      cu128        best fit",
        "  rejected    cu128        2 wheels: yanked",
        "  rejected    cu128        too large",
        "  rejected    plain wheel  yanked",
    ]
    assert printed(Output(verbosity=1), capsys, *verdicts)[2:4] == [
        "  rejected    cu128        some-1.0-cp311-cp311-linux_x86_64-cu128.whl: yanked",
        "  rejected    cu128        some-1.0-py3-none-any-cu128.whl: yanked",
    ]


def test_wheels_for_other_pythons_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """Wheels for other Pythons are counted; a label without other wheels is named."""
    verdicts = [
        verdict("chosen", "best fit", "cu128"),
        verdict("rejected", "built for cp39", "cu128", "cp39-cp39-any"),
        verdict("rejected", "built for cp310", "cu128", "cp310-cp310-any"),
        verdict("rejected", "built for Windows", "xpu", "py3-none-win32"),
        verdict("rejected", "built for macOS", "xpu", "py3-none-macosx_11_0_arm64"),
        verdict("rejected", "built for cp39", None, "cp39-cp39-any"),
    ]
    assert printed(Output(), capsys, *verdicts)[1:] == [
        "  chosen      cu128        best fit",
        "  rejected    plain wheel  built for cp39",
        "  rejected    xpu          all 2 wheels are for others: built for Windows",
        "  rejected    others       2 wheels are for other Pythons or platforms (-v names them)",
    ]
    assert len(printed(Output(verbosity=1), capsys, *verdicts)) == 1 + len(verdicts)


def test_verdict_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    """A reason that begins with the verdict is shortened."""
    lines = printed(
        Output(),
        capsys,
        verdict("chosen", "the plain wheel"),
        verdict("compatible", "compatible; b is preferred", "a"),
    )
    assert lines[-1] == "  compatible  a            b is preferred"


def test_long_reasons_are_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    """Long reasons are wrapped between words and indented."""
    reason = "needs " + ", ".join(f"feature_{number}" for number in range(30))
    lines = printed(Output(width=100), capsys, verdict("rejected", reason, "cu128"))[1:]
    assert len(lines) > 1
    assert max(map(len, lines)) <= 100
    assert all(line.startswith(" " * 21) for line in lines[1:])
    assert "".join(line[21:] + " " for line in lines).strip() == reason
    assert len(printed(Output(), capsys, verdict("rejected", reason, "cu128"))) == 2  # a pipe


def test_colours(capsys: pytest.CaptureFixture[str]) -> None:
    """The chosen wheel is green, rejected ones are dim."""
    lines = printed(
        Output(colour=True),
        capsys,
        verdict("chosen", "best fit", "cu128"),
        verdict("compatible", "compatible; slower", "cu126"),
        verdict("rejected", "no driver", "cu130"),
    )
    assert [line[: line.find("m") + 1] for line in lines[1:] if line.startswith("\x1b")] == [
        "\x1b[32m",
        "\x1b[2m",
    ]


@pytest.mark.parametrize(
    ("verbosity", "remarks"), [(-1, ""), (0, "warning: a GPU is idle\n  note: by the way\n")]
)
def test_warnings_and_notes(
    verbosity: int, remarks: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Warnings and notes are printed on standard error unless quiet."""
    explanation = Explanation(
        canonicalize_name("some"), None, None, warnings=("a GPU is idle",), notes=("by the way",)
    )
    print_explanation(explanation, MACHINE, Output(verbosity=verbosity))
    captured = capsys.readouterr()
    assert captured.out == "some: nothing fits this machine\n"
    assert captured.err == remarks
