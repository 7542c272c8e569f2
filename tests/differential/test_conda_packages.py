"""Conda's virtual packages, held against rattler, which pixi is made of, and against archspec."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from python_runs import printed_by

from wheelfit.cli.main import main
from wheelfit_runtime.platforms.providers.aarch64 import tables as aarch64
from wheelfit_runtime.platforms.providers.x86_64 import tables as x86_64

pytestmark = [pytest.mark.network, pytest.mark.usefixtures("bare_environment")]

RATTLER = "py-rattler==0.28.0"
ARCHSPEC = "archspec==0.2.7"
Environment = Callable[..., Path]

_DETECT = """
import json
from rattler import VirtualPackage, VirtualPackageOverrides
found = VirtualPackage.detect(VirtualPackageOverrides.from_env())
print(json.dumps(sorted(str(one.into_generic()) for one in found)))
"""
_TARGETS = """
import json
from archspec.cpu import TARGETS
print(json.dumps({
    name: [str(one.family), sorted(one.features), [a.name for a in one.ancestors]]
    for name, one in TARGETS.items()
}))
"""


def run(python: Path, code: str, **environ: str) -> object:
    """Return what a Python prints, as JSON."""
    given = {"PATH": os.environ["PATH"], **environ}
    return json.loads(printed_by("-I", "-c", code, python=python, environ=given))


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"CUDA": "12.8"},
        {"CUDA": "12.8", "CUDA_ARCH": "8.6"},
        {"CUDA": "13.0", "CUDA_ARCH": ""},
        {"CUDA": "", "CUDA_ARCH": "8.6"},
        {"CUDA_ARCH": "8.6"},
        {"GLIBC": "2.17", "LINUX": "4.18"},
        # CEP 30 ignores what is about another system, and rattler does not: no more of it here.
        {"GLIBC": ""},
    ],
)
def test_the_same_virtual_packages(
    environ: dict[str, str],
    environment_with: Environment,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """CEP 30, CEP 46: of this machine, whatever the variables say; processors are told by level."""
    variables = {f"CONDA_OVERRIDE_{name}": text for name, text in environ.items()}
    theirs = run(environment_with(RATTLER), _DETECT, **variables)
    assert isinstance(theirs, list)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert main(["host", "show", "this", "--format", "conda"]) == 0
    ours = capsys.readouterr().out.splitlines()[1:]
    assert [name for name in ours if "archspec" not in name] == [
        name for name in theirs if "archspec" not in name
    ]


def test_every_name_of_archspec(environment_with: Environment) -> None:
    """The level or version of each processor follows from what archspec says it can do."""
    targets = run(environment_with(ARCHSPEC), _TARGETS)
    assert isinstance(targets, dict)
    levels, versions = {}, {}
    for name, (family, features, ancestors) in targets.items():
        if family == "x86_64":
            fits = [
                level
                for level in ("v4", "v3", "v2")
                if set(targets[f"x86_64_{level}"][1]) <= set(features)
            ]
            levels[name] = fits[0] if fits else "v1"
        if family == "aarch64":
            named = {one.removeprefix("armv") for one in (name, *ancestors)}
            versions[name] = next(
                (version for version in aarch64.VERSIONS if version in named), "8a"
            )
    assert levels == x86_64.ARCHSPEC
    # P-115: the kernel hides what Ampere's cores have beyond 8.4.
    assert versions == {**aarch64.ARCHSPEC, "ampere1": "8.5a", "ampere1a": "8.5a"}
