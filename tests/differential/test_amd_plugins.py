"""rocm-bootstrap 0.2.0 and 0.3.0, held against the built-in provider of AMD's namespace.

Both are asked about every captured machine and about drawn lists of nodes; every difference has
a rule, which is named here. The other published plugin, amd-variant-provider, is in no index.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from differential.oracles import Reason, answers_of, show
from platforms.detecting import MACHINES, detection_of, touch, values_of, view_of, write_files

from wheelfit_runtime.platforms import recording
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Detection, Status
from wheelfit_runtime.platforms.providers.amd import probes, tables
from wheelfit_runtime.platforms.system_view import SystemView

pytestmark = pytest.mark.network

ORACLE = "rocm_bootstrap_plugin.py"
VERSIONS = ("0.2.0", "0.3.0")
DRAWN = 300

Environment = Callable[..., Path]

# --- differences that are accepted -------------------------------------------------------

UNKNOWN = ("P-121", "it fails when it does not know a GPU, for all of them")
ORDER = ("P-122", "integrated GPUs are not put behind discrete ones; node 10 comes before node 2")
NOT_USABLE = ("P-124", "GPUs count that this container was not given")
NO_TOOLS = ("P-125", "where the kernel has no list, no tool of ROCm is asked")
OTHER_VARIABLE = ("P-126", "the variable of the other plugin means nothing to it")
MALFORMED = ("P-73", "a name that cannot be one is an error, here a switched off provider")
BLANK = ("P-73", "a variable of blanks forces no GPU at all; here it is an unset one")
NO_OWNERS = ("P-120", "the older one does not know names that packages share")


@dataclass
class Case:
    """Hold one machine, as both see it."""

    name: str
    seen: SystemView
    clinfo: str = ""
    environ: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return what the oracle needs."""
        return {
            "root": str(self.seen.root),
            "environ": dict(self.seen.environ),
            "clinfo": self.clinfo,
        }


def captured() -> list[Case]:
    """Return every captured machine; on Windows what clinfo said, which it asks too."""
    cases = []
    for folder in sorted(MACHINES.iterdir()):
        machine = recording.open_recorded(folder)
        answers = folder / "answers.json"
        told = json.loads(answers.read_text("utf-8")) if answers.exists() else {}
        clinfo = told.get("clinfo", {}).get("output", "")
        cases.append(Case(folder.name, machine.view, clinfo))
    return cases


def drawn(folder: Path) -> list[Case]:
    """Draw lists of nodes, known and unknown, usable and not, in numbers of one and two digits."""
    draw = random.Random("KFD")
    versions = [
        version
        for version in range(90000, 130000)
        if probes.target_name(version) in {*tables.PUBLISHED_GFX, *tables.APPENDED_GFX}
    ]
    cases = []
    for number in range(DRAWN):
        root = folder / str(number)
        for node in draw.sample(range(14), draw.randint(1, 4)):
            version = draw.choice([*versions, 0]) if draw.random() < 0.97 else 130000
            minor = 128 + node
            text = f"simd_count 80\ngfx_target_version {version}\ndrm_render_minor {minor}\n"
            path = f"sys/class/kfd/kfd/topology/nodes/{node}/properties"
            write_files(root, {path: text if draw.random() < 0.8 else "simd_count 0\n"})
            if draw.random() < 0.95:
                touch(root, f"dev/dri/renderD{minor}")
        touch(root, "dev/kfd")
        cases.append(Case(f"drawn {number}", Machine(view_of(root)).view))
    return cases


FORCED = [
    {"ROCM_BOOTSTRAP_FORCE_GFX_ARCH": text}
    for text in (
        "gfx942", "gfx942,gfx942", "gfx1100, gfx942 ,gfx90a", "gfx1100,,gfx1036,", "", " ",
        "gfx1250-strict", "gfx1250-strict,gfx1250", "gfx1399", "gfx9-generic", "mi300",
        "gfx942:xnack+", "gfx942;gfx90a", ",",
    )
]  # fmt: skip
FORCED += [
    {"ROCM_BOOTSTRAP_DISABLE_DETECTION": text, "ROCM_BOOTSTRAP_FORCE_GFX_ARCH": "gfx942"}
    for text in ("1", "0", "", "true")
]
FORCED += [{"ROCM_BOOTSTRAP_DISABLE_DETECTION": "1"}]


def forced() -> list[Case]:
    """Return a machine with a GPU, under each combination of variables."""
    given = recording.view_arguments(MACHINES / "linux-x86-amd-mi300x")
    return [
        Case(str(environ), Machine(SystemView(**given | {"environ": environ})).view)
        for environ in FORCED
    ]


def why(case: Case, mine: Detection, theirs: list[str] | str) -> set[Reason]:
    """Explain a difference; what has no rule fails."""
    names = list(values_of(mine).get("gfx_arch", ()))
    if isinstance(theirs, str):
        if mine.status is Status.DISABLED:
            return {MALFORMED}
        if "target: 'gfx1250-strict'" in theirs:
            assert "gfx1250" in names
            return {NO_OWNERS}
        known = {*tables.PUBLISHED_GFX, *tables.APPENDED_GFX}
        # Where it cannot be used, it does not count here at all.
        gpus = probes.parse_kfd(probes.read_kfd(case.seen)).gpus
        assert set(names) - known or {gpu.name for gpu in gpus} - known
        return {UNKNOWN}
    if mine.status is Status.DISABLED:
        assert case.seen.environ
        return {MALFORMED}
    if any(name.startswith("AMD_VARIANT_PROVIDER_") for name in case.seen.environ):
        return {OTHER_VARIABLE}
    gpus = probes.parse_kfd(probes.read_kfd(case.seen)).gpus
    if names and not theirs:
        assert gpus == () or case.seen.environ["ROCM_BOOTSTRAP_FORCE_GFX_ARCH"].isspace()
        return {BLANK if gpus else NO_TOOLS}
    reasons = set()
    if set(theirs) != set(names):
        assert set(theirs) - set(names) <= {gpu.name for gpu in gpus if gpu.problem}
        assert set(names) <= set(theirs)
        reasons.add(NOT_USABLE)
    if [name for name in theirs if name in names] != names:
        # The first GPU of a name decides about its place; here it must be one that can be used.
        has_both = 0 < len(set(names) & tables.INTEGRATED_GFX) < len(names)
        places = [gpu.node for gpu in gpus]
        assert has_both or any(gpu.problem for gpu in gpus) or max(places) > 9 > min(places)
        reasons.add(ORDER)
    return reasons


@pytest.mark.parametrize("version", VERSIONS)
def test_same_gpus_as_rocm_bootstrap(
    environment_with: Environment,
    tmp_path: Path,
    version: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """P-39, P-40, P-120, P-122, P-124, P-126: the same names in the same order, but for rules."""
    (tmp_path / "drawn").mkdir()
    cases = [*captured(), *drawn(tmp_path / "drawn"), *forced()]
    python = environment_with(f"rocm-bootstrap=={version}")
    told = answers_of(python, ORACLE, tmp_path, [case.as_json() for case in cases])
    found: Counter[Reason] = Counter()
    agreements = 0
    for case, theirs in zip(cases, told["supported"], strict=True):
        mine = detection_of("amd", Machine(case.seen))
        names = list(values_of(mine).get("gfx_arch", ()))
        # Switched off without a warning is switched off by its own variable.
        if names == theirs and not (mine.status is Status.DISABLED and mine.warnings):
            agreements += bool(theirs)
            continue
        reasons = why(case, mine, theirs)
        assert reasons, f"{case.name}: {names} here, {theirs} there"
        found.update(reasons)
    title = f"rocm-bootstrap {version}: {len(cases)} machines, {agreements} with GPUs alike:"
    show(capsys, title, found)
    expected = {UNKNOWN, ORDER, NOT_USABLE, NO_TOOLS, OTHER_VARIABLE, MALFORMED, BLANK}
    assert set(found) == expected | ({NO_OWNERS} if version == "0.2.0" else set())
    assert agreements > DRAWN / 2


@pytest.mark.parametrize("version", VERSIONS)
def test_same_vocabulary_as_rocm_bootstrap(
    environment_with: Environment, tmp_path: Path, version: str
) -> None:
    """P-28, P-121: all its names, and none that only the other plugin has."""
    python = environment_with(f"rocm-bootstrap=={version}")
    valid = answers_of(python, ORACLE, tmp_path, [])["valid"]
    assert {*tables.PUBLISHED_GFX, *tables.APPENDED_GFX} == set(valid)
    published = set(tables.PUBLISHED_GFX)
    assert list(tables.APPENDED_GFX) == [name for name in valid if name not in published]
