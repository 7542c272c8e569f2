"""The published CPU plugins and archspec, held against the built-in providers.

Both are asked about every captured machine. In reference mode the built-in providers leave
out what they add (P-43); what is different even then has a rule, which is named here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from differential.oracles import Reason, answers_of, show
from platforms.detecting import MACHINES, detection_of, values_of
from python_runs import printed_by

from wheelfit_runtime.platforms import recording
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.facts import Cpu
from wheelfit_runtime.platforms.probes import proc_cpuinfo
from wheelfit_runtime.platforms.providers.aarch64 import probes as arm_probes
from wheelfit_runtime.platforms.providers.aarch64 import provider as arm_provider
from wheelfit_runtime.platforms.providers.aarch64 import tables as aarch64
from wheelfit_runtime.platforms.providers.x86_64 import probes as x86_probes
from wheelfit_runtime.platforms.providers.x86_64 import tables as x86_64
from wheelfit_runtime.platforms.system_view import SystemView

pytestmark = pytest.mark.network

ORACLE = "cpu_plugin.py"
Environment = Callable[..., Path]
Answer = list[tuple[str, list[str]]]

PLUGINS = {
    "x86_64": "provider_variant_x86_64.plugin:X8664Plugin",
    "aarch64": "provider_variant_aarch64.plugin:AArch64Plugin",
}
OLDER, NEWER = "0.0.1.post1", "0.0.1.post2"
# One environment for each version, because making one takes seconds.
PACKAGES = {
    # It needs archspec and the variantlib of its time beside it.
    OLDER: (
        f"provider-variant-x86-64=={OLDER}",
        f"provider-variant-aarch64=={OLDER}",
        "archspec==0.2.7",
        "variantlib==0.0.1.post1",
    ),
    NEWER: (
        f"provider-variant-x86-64=={NEWER}",
        f"provider-variant-aarch64=={NEWER}",
        "nvidia-variant-provider==0.0.0a0",
    ),
}

# --- differences that are accepted -------------------------------------------------------

NO_V1 = ("P-102", "nothing is supported on a processor with v1 only")
FIRST_ONLY = ("P-105", "only the first of unlike processors is looked at")
NO_FLAGS = ("P-104", "nothing is supported where the file tells no flags")
ROSETTA = ("P-104", "a translated Python counts as one for Arm")
MACOS_LISTS = ("P-106", "one of the three lists of macOS is not asked for")
EMULATED = ("P-105", "the file is believed, though an emulator shows that of its host")
FLAGS_OF_MODEL = ("P-103", "flags come from a table of models, which lacks some")

MISSPELT = ("P-110", "four abilities can never be named")
NO_8A = ("P-112", "nothing is supported on a core without a row in its table")
NO_ABILITIES = ("P-110", "no abilities are listed at all")
ABILITIES_OF_MODEL = ("P-110", "abilities come from a table of models, which lacks some")
BEYOND = ("P-110", "versions are listed that the later plugin does not have")
MODEL_OF_MACOS = ("P-112", "on macOS the model counts, whatever the system says")
FROM_THE_FILE = ("P-112", "the file counts, and not what the process may use")
MISSING_BITS = ("P-112", "the version is that of the model, although bits it needs are missing")
OLD_CHIPS = ("P-113", "newer chips of Apple are not known")
NAMELESS = ("P-113", "a name that identifies nothing is taken for an M1")
BY_ABILITIES = ("P-113", "an unknown core with all bits of a known one counts as that")
FIRST_CORE = ("P-114", "only the first of unlike cores is looked at")
UNKNOWN_CORE = ("P-115", "a core without a row in its table is 8a")
LESS_BY_RULE = ("P-115", "AmpereOne counts as more than 8.4a")

SEPARATED = frozenset(["bti", "ecv", "asimdrdm", "atomics"])


# --- both sides --------------------------------------------------------------------------


def captured(architecture: str) -> list[Path]:
    """Return the captured machines with an interpreter for an architecture."""

    def fits(told: dict[str, Any]) -> bool:
        return bool(told["architecture"] == architecture and told["system"] in {"Linux", "Darwin"})

    return [path for path in sorted(MACHINES.iterdir()) if fits(recording.description(path))]


def as_they_see_it(folder: Path) -> dict[str, Any]:
    """Return what the oracle needs of a captured machine."""
    told = recording.description(folder)
    file = folder / "root/proc/cpuinfo"
    names = {"aarch64": "arm64"} if told["system"] == "Darwin" else {}
    return {
        "system": told["system"],
        "machine": names.get(told["architecture"], told["architecture"]),
        "cpuinfo": file.read_text("utf-8") if file.exists() else "",
        "sysctl": {name: str(value) for name, value in told.get("sysctl", {}).items()},
    }


def view(folder: Path) -> SystemView:
    """Return a captured machine without its variables, for the reference mode."""
    given = recording.view_arguments(folder) | {"environ": {}, "reference": True}
    return Machine(SystemView(**given)).view


def ours(seen: SystemView, namespace: str) -> Answer:
    """Return what the built-in provider says."""
    found = values_of(detection_of(namespace, Machine(seen)))
    return [(name, list(values)) for name, values in found.items()]


# --- why they differ ---------------------------------------------------------------------


def why_x86(seen: SystemView, mine: Answer, theirs: Answer) -> Iterator[Reason]:
    """Explain every difference; what has no rule fails."""
    info = proc_cpuinfo.parse(seen.read_text(proc_cpuinfo.PATH) or "", "flags")
    told = {name: answer.decode() for name, answer in (seen.recorded_sysctl or {}).items()}
    if seen.system == "Darwin" and "Apple" in told["machdep.cpu.brand_string"]:
        assert theirs == []
        yield ROSETTA
    elif seen.system == "Darwin" and theirs == []:
        # Without lahf_lm and abm there is not even v2.
        assert "LAHF" in told["machdep.cpu.extfeatures"]
        yield MACOS_LISTS
    elif theirs == []:
        assert mine[0] == ("level", ["v1"]) or info.flags is None
        yield NO_FLAGS if info.flags is None else NO_V1
    else:
        names, known = dict(mine), dict(theirs)
        if known["level"] != names["level"] or known.keys() - names.keys():
            assert info.differ or is_emulated(seen)
            yield FIRST_ONLY if info.differ else EMULATED
        if names.keys() - known.keys():
            yield FLAGS_OF_MODEL
        assert [name for name in known if name in names] == [n for n in names if n in known]


def is_emulated(seen: SystemView) -> bool:
    """Say whether the processor denies what the file tells of it."""
    flags = (
        proc_cpuinfo.parse(seen.read_text(proc_cpuinfo.PATH) or "", "flags").flags or frozenset()
    )
    table = seen.recorded_cpuid
    return table is not None and "avx" in flags and "avx" not in x86_probes.parse_cpuid(table)


def why_arm(seen: SystemView, mine: Answer, theirs: Answer) -> Iterator[Reason]:
    """Explain every difference; what has no rule fails."""
    cpu = arm_provider.read(seen)
    if not theirs:
        yield NO_8A
        return
    names, known = dict(mine), dict(theirs)
    versions = [version for version in known["version"] if version in aarch64.VERSIONS]
    if versions != known["version"]:
        yield BEYOND
    if versions != names["version"]:
        yield why_version(cpu, names["version"], versions, macos=seen.system == "Darwin")
    if known.keys() - names.keys():
        if seen.system == "Darwin":
            yield MODEL_OF_MACOS
        else:
            assert len(cpu.cores) > 1 or seen.read_bytes(arm_probes.AUXV)
            yield FIRST_CORE if len(cpu.cores) > 1 else FROM_THE_FILE
    more = names.keys() - known.keys()
    if known.keys() == {"version"}:
        yield NO_ABILITIES
    else:
        yield from {MISSPELT if name in SEPARATED else ABILITIES_OF_MODEL for name in more}
    assert [name for name in known if name in names] == [name for name in names if name in known]


def why_version(cpu: Cpu, mine: list[str], theirs: list[str], *, macos: bool) -> Reason:
    """Explain why the versions of a processor differ."""
    if len(theirs) < len(mine):
        assert macos or theirs == ["8a"]
        return OLD_CHIPS if macos else UNKNOWN_CORE
    needed: set[str] = set()
    for version, added in aarch64.REQUIREMENTS:
        needed |= added if version in theirs else set()
    if macos:
        assert cpu.brand == "Apple processor" or needed - (cpu.flags or set())
        return NAMELESS if cpu.brand == "Apple processor" else MISSING_BITS
    if len(cpu.cores) > 1:
        return FIRST_CORE
    if needed - (cpu.flags or set()):
        return MISSING_BITS
    (core,) = cpu.cores
    assert aarch64.CORE_VERSIONS.get(core, mine[0]) == mine[0]
    return LESS_BY_RULE if core in aarch64.CORE_VERSIONS else BY_ABILITIES


# --- tests -------------------------------------------------------------------------------

EXPLAIN = {"x86_64": why_x86, "aarch64": why_arm}
EXPECTED = {
    ("x86_64", OLDER): {NO_V1, NO_FLAGS, ROSETTA, FIRST_ONLY, EMULATED, FLAGS_OF_MODEL},
    ("x86_64", NEWER): {
        NO_V1, NO_FLAGS, ROSETTA, MACOS_LISTS, FIRST_ONLY, EMULATED, FLAGS_OF_MODEL,
    },
    ("aarch64", OLDER): {
        NO_8A, NO_ABILITIES, BEYOND, LESS_BY_RULE, NAMELESS, MISSING_BITS, FIRST_CORE,
        BY_ABILITIES,
    },
    ("aarch64", NEWER): {
        NO_ABILITIES, MISSPELT, ABILITIES_OF_MODEL, MODEL_OF_MACOS, FROM_THE_FILE, OLD_CHIPS,
        UNKNOWN_CORE, NAMELESS, MISSING_BITS, FIRST_CORE, BY_ABILITIES,
    },
}  # fmt: skip


@pytest.mark.parametrize(("namespace", "version"), EXPECTED)
def test_same_answers_as_the_published_plugin(
    environment_with: Environment,
    tmp_path: Path,
    namespace: str,
    version: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """P-39, P-40, P-43, P-103, P-110: the same features in the same order, but for rules."""
    python = environment_with(*PACKAGES[version])
    folders = captured(namespace)
    told = [as_they_see_it(folder) for folder in folders]
    found: Counter[Reason] = Counter()
    answers = answers_of(python, ORACLE, tmp_path, told, PLUGINS[namespace])
    for folder, theirs in zip(folders, answers, strict=True):
        seen = view(folder)
        mine, published = ours(seen, namespace), [(name, values) for name, values in theirs]
        reasons = set(EXPLAIN[namespace](seen, mine, published)) if mine != published else set()
        assert reasons or mine == published, folder.name
        found.update(reasons)
    show(capsys, f"{namespace} {version}: {len(folders)} machines; the differences:", found)
    assert set(found) == EXPECTED[namespace, version]


ALL = """
import json, sys
from provider_variant_{0}.plugin import {1}
print(json.dumps([(one.name, one.values) for one in {1}().get_all_configs()]))
"""


def test_same_vocabulary_as_the_published_plugin(environment_with: Environment) -> None:
    """P-28, P-40, P-100: all features in the order of the plugin, which lists them itself."""
    python = environment_with(*PACKAGES[OLDER])
    for namespace, endpoint in PLUGINS.items():
        program = ALL.format(namespace, endpoint.partition(":")[2])
        levels = [name for name, _ in reversed(x86_64.LEVELS)]
        expected = {
            "x86_64": [["level", levels], *([name, ["on"]] for name in x86_64.FEATURES)],
            # The abilities came with the next version.
            "aarch64": [["version", list(aarch64.VERSIONS)]],
        }
        assert json.loads(printed_by("-I", "-c", program, python=python)) == expected[namespace]


def test_same_order_of_abilities_as_the_published_plugin(environment_with: Environment) -> None:
    """P-110: the list of the plugin, with its two typing errors taken apart."""
    python = environment_with(*PACKAGES[NEWER])
    program = (
        "from provider_variant_aarch64.plugin import AArch64Plugin as p; print(*p.all_features)"
    )
    apart = {"btiecv": ["bti", "ecv"], "asimdrdmatomics": ["asimdrdm", "atomics"]}
    told = printed_by("-I", "-c", program, python=python).split()
    assert [one for word in told for one in apart.get(word, [word])] == list(aarch64.FEATURES)


def test_this_machine_is_the_same_to_the_published_plugin(
    environment_with: Environment, tmp_path: Path
) -> None:
    """P-40, P-43, P-103: nothing recorded, nothing replaced: the level is the same one."""
    seen = SystemView(environ={}, reference=True)
    if seen.architecture != "x86_64" or seen.system != "Linux":
        pytest.skip("needs Linux on x86-64")
    text = seen.read_text(proc_cpuinfo.PATH) or ""
    python = environment_with(*PACKAGES[NEWER])
    told = {"system": "Linux", "machine": "x86_64", "cpuinfo": text, "sysctl": {}}
    (theirs,) = answers_of(python, ORACLE, tmp_path, [told], PLUGINS["x86_64"])
    program = (
        "import json; from provider_variant_x86_64.plugin import X8664Plugin as p; "
        "print(json.dumps([(f.name, f.values) for f in p().get_supported_configs(None)]))"
    )
    assert json.loads(printed_by("-I", "-c", program, python=python)) == theirs
    mine, published = ours(seen, "x86_64"), [(name, values) for name, values in theirs]
    assert set(why_x86(seen, mine, published)) <= {FLAGS_OF_MODEL, NO_V1}


def test_same_levels_as_archspec(environment_with: Environment, tmp_path: Path) -> None:
    """P-102, P-105, P-106: an independent table of families gives every machine the same level."""
    folders = captured("x86_64")
    told = [as_they_see_it(folder) for folder in folders]
    levels = {}
    answers = answers_of(environment_with(*PACKAGES[OLDER]), ORACLE, tmp_path, told, "archspec")
    for folder, (family, generic, features) in zip(folders, answers, strict=True):
        seen = view(folder)
        info = proc_cpuinfo.parse(seen.read_text(proc_cpuinfo.PATH) or "", "flags")
        if seen.system == "Linux" and (info.flags is None or info.differ or is_emulated(seen)):
            continue  # P-104, P-105: there it knows nothing, or looks at the first or the host
        if not generic.startswith("x86_64"):
            assert generic.startswith("armv")  # P-106: Rosetta
            continue
        mine = dict(ours(seen, "x86_64"))
        assert mine["level"][0] == generic.removeprefix("x86_64_").replace("x86_64", "v1"), family
        # Whatever every processor of the family has, this one has.
        assert set(features) & set(x86_64.FEATURES) <= mine.keys(), family
        levels[family] = mine["level"][0]
    assert {"k10", "nehalem", "haswell", "zen3", "skylake_avx512", "zen5"} <= levels.keys()
    assert set(levels.values()) == {"v1", "v2", "v3", "v4"}


POSITIONS = """
import archspec, json, pathlib
tables = json.loads((pathlib.Path(archspec.__file__).parent / "json/cpu/cpuid.json").read_text())
print(json.dumps([
    [bit["name"], row["input"]["eax"], row["input"]["ecx"], bit["register"], bit["bit"]]
    for part in ("flags", "extension-flags") for row in tables[part] for bit in row["bits"]
]))
"""


def test_same_positions_as_archspec(environment_with: Environment) -> None:
    """P-107: every flag that both know is in the same leaf, register and bit."""
    python = environment_with(*PACKAGES[OLDER])
    theirs: dict[str, set[tuple[Any, ...]]] = {}
    for name, *position in json.loads(printed_by("-I", "-c", POSITIONS, python=python)):
        theirs.setdefault(name, set()).add(tuple(position))
    mine = {
        name: (*place, bit)
        for place, bits in x86_64.CPUID_FLAGS.items()
        for bit, name in bits.items()
    }
    shared = mine.keys() & theirs.keys()
    assert {name for name in shared if mine[name] not in theirs[name]} == set()
    assert len(shared) > 60
    assert mine.keys() - shared == {
        "sse3", "tsc_adjust", "flush_l1d", "clzero", "cppc", "avx_vnni_int8", "avx_vnni_int16",
        "avx_ne_convert",
    }  # fmt: skip


def test_the_nvidia_package_of_the_registry_holds_nothing(environment_with: Environment) -> None:
    """P-19: the only version that can be had is empty, so there is nothing to compare with."""
    python = environment_with(*PACKAGES[NEWER])
    program = (
        "import nvidia_variant_provider as p, importlib.util as u;"
        "print([n for n in vars(p) if n[0] != '_'], u.find_spec('nvidia_variant_provider.plugin'))"
    )
    assert printed_by("-I", "-c", program, python=python).split() == ["[]", "None"]
