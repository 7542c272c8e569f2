"""What a wheel brings is judged by names, and by the tags in WHEEL."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking.broken_wheels import LINUX, plain, with_files
from checking.releases import check, rewritten

from wheelfit.testing.wheels import build_wheel

ANY_PYTHON = "py3-none-manylinux_2_28_x86_64"


def severities(path: Path, code: str) -> list[str]:
    """Return the severities of what a check finds in a wheel."""
    return [finding.severity for finding in check(path).findings if finding.code == code]


@pytest.mark.parametrize(
    ("named", "inner", "expected"),
    [
        ("py2.py3-none-any", ["py2-none-any", "py3-none-any"], []),
        ("py2.py3-none-any", ["py2.py3-none-any"], []),
        ("py2.py3-none-any", ["py3-none-any"], ["warning"]),
        ("cp313-cp313-manylinux_2_28_x86_64", ["cp313-cp313-linux_x86_64"], ["warning"]),
        ("cp313-cp313-manylinux_2_28_x86_64", ["cp313-cp313-linux_aarch64"], ["error"]),
        ("cp313-cp313-manylinux_2_28_x86_64", ["py3-none-any"], ["warning"]),
        ("cp313-cp313-macosx_11_0_arm64", ["cp313-cp313-macosx_11_0_universal2"], ["warning"]),
        ("cp313-cp313-macosx_11_0_arm64", ["cp313-cp313-macosx_11_0_x86_64"], ["error"]),
        ("py3-none-win_amd64", ["cp37-cp37m-win_amd64"], ["error"]),
        ("py3-none-any", [], ["error"]),
        ("py3-none-any", ["py3"], ["error"]),
    ],
)
def test_tags(tmp_path: Path, named: str, inner: list[str], expected: list[str]) -> None:
    """F-15: tags that no machine of the file name takes are wrong, others are odd."""
    lines = ["Wheel-Version: 1.0", *(f"Tag: {tag}" for tag in inner)]
    wheel = rewritten(plain(tmp_path, tag=named), {"WHEEL": "\n".join(lines).encode()})
    assert severities(wheel, "wrong-wheel-tags") == expected


@pytest.mark.parametrize(
    ("file", "tag", "code", "expected"),
    [
        ("fast/_c.cp313-win_amd64.pyd", "py3-none-any", "native-code-for-any", ["error"]),
        ("fast/_c.abi3.so", "py3-none-any", "native-code-for-any", ["error"]),
        ("fast/libfast.so.1", "py3-none-any", "native-code-for-any", ["note"]),
        ("fast/libfast.so.1", LINUX, "native-code-for-any", []),
        ("fast/cli-64.exe", "py3-none-any", "native-code-for-any", []),
        ("fast/_c.cpython-313t-x86_64-linux-gnu.so", LINUX, "foreign-extension", []),
        ("fast/_c.cpython-312-x86_64-linux-gnu.so", LINUX, "foreign-extension", ["error"]),
        ("fast/_c.abi3.so", LINUX, "foreign-extension", []),
        ("fast/_c.pyd", "cp313-cp313-win_amd64", "foreign-extension", []),
        ("fast/_c.cp312-win_amd64.pyd", "cp313-cp313-win_amd64", "foreign-extension", ["error"]),
        (
            "fast/_c.cpython-312-x86_64-linux-gnu.so",
            f"py3-none-{LINUX[12:]}",
            "foreign-extension",
            [],
        ),
        ("tests/test_fast.py", "py3-none-any", "generic-top-level", ["warning"]),
        ("fast/tests/test_fast.py", "py3-none-any", "generic-top-level", []),
        ("fast-1.0.data/purelib/docs/a.md", "py3-none-any", "generic-top-level", ["warning"]),
        ("fast-1.0.data/data/docs/a.md", "py3-none-any", "generic-top-level", []),
        ("LICENSE", "py3-none-any", "generic-top-level", ["warning"]),
        ("fast/__init__.pyc", "py3-none-any", "compiled-python", ["warning"]),
        ("fast/secret.pyc", "py3-none-any", "compiled-python", ["error"]),
        ("fast/secret.pyc", LINUX, "compiled-python", []),
    ],
)
def test_names(tmp_path: Path, file: str, tag: str, code: str, expected: list[str]) -> None:
    """B-34, F-15: files are odd or wrong by their names, and by the tags of the wheel."""
    assert severities(with_files(tmp_path, {file: b""}, tag), code) == expected


def test_modules_for_several_pythons(tmp_path: Path) -> None:
    """F-15: a module is foreign if none of its builds is for the Python of the tag."""
    builds = [f"fast/_c.cpython-{one}-x86_64-linux-gnu.so" for one in (311, 312, 313)]
    wheel = with_files(tmp_path, dict.fromkeys(builds, b""), LINUX)
    assert severities(wheel, "foreign-extension") == []


def test_a_project_may_be_called_so(tmp_path: Path) -> None:
    """B-34: a folder that is called like the project is its package."""
    wheel = build_wheel(tmp_path, "build", "1.0", files={"build/__init__.py": ""})
    assert severities(wheel, "generic-top-level") == []
