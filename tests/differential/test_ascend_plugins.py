"""ascend-variant-provider 0.0.2, held against the built-in provider of its namespace.

It gets a program called ``npu-smi`` that prints a table, and the toolkit's file; so do we. Every
difference has a rule, which is named here. Its successor, huawei-ascend-variant-provider, is in
no index; what that does is the rule.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from differential.oracles import ORACLES, Reason, show
from platforms.detecting import detect, write_program
from programs import run_program

from wheelfit_runtime.platforms.features import Detection, Status

pytestmark = pytest.mark.network

PACKAGE = "ascend-variant-provider==0.0.2"
FORCE = "ASCEND_VARIANT_PROVIDER_FORCE_"
ARCHITECTURE = "aarch64"

Environment = Callable[..., Path]
Answer = dict[str, list[str]]

# --- differences that are accepted -------------------------------------------------------

EMPTY = ("P-27", "a feature without values is listed, which makes other tools fail")
EACH_CARD = ("P-141", "a type is there once for every card")
LOST = ("P-142", "no version is listed where no type is found")
BY_PRODUCT = ("P-140", "a chip that is called Ascend910, or by digits alone, is not found")
CUT = ("P-140", "digits behind the letters of a name are cut off, whatever it is")
ONE_NAME = ("P-141", "a forced type has one name")
CAPITALS = ("F-2", "a forced value keeps its capitals, which no wheel can have")
FORCED_ANYTHING = ("P-73", "whatever is forced is believed, even what no wheel can say")


@dataclass(frozen=True)
class Case:
    """Hold one machine."""

    cards: tuple[str, ...] = ()
    """Chips as the tool calls them."""
    driver: str = "24.1.rc3"
    cann: str | None = "8.2.RC1"
    environ: dict[str, str] = field(default_factory=dict)
    has_tool: bool = True

    def table(self) -> str:
        """Return what the tool prints."""
        rows = "".join(
            f"| {number:<5} {chip:<20}| OK            | 94.3        40            0    / 0     |\n"
            f"| 0                         | 0000:{number:02X}:00.0  | 0           0    / 0     |\n"
            for number, chip in enumerate(self.cards)
        )
        version = f"| npu-smi {self.driver}          Version: {self.driver}          |\n"
        return f"{version}| NPU   Name | Health | Power(W) Temp(C) Hugepages-Usage(page) |\n{rows}"

    def write(self, folder: Path) -> dict[str, str]:
        """Write tool and toolkit, and return the variables that lead to them."""
        bin_, toolkit = folder / "bin", folder / "toolkit" / f"{ARCHITECTURE}-linux"
        bin_.mkdir(parents=True)
        toolkit.mkdir(parents=True)
        if self.has_tool:
            (bin_ / "table").write_text(self.table())
            write_program(bin_, "npu-smi", f'cat "{bin_}/table"\n')
        environ = {"PATH": f"{bin_}:/usr/bin:/bin", "HOME": str(folder), **self.environ}
        if self.cann is not None:
            (toolkit / "ascend_toolkit_install.info").write_text(
                f"package_name=Ascend-cann-toolkit\nversion={self.cann}\narch={ARCHITECTURE}\n"
            )
            environ["ASCEND_TOOLKIT_HOME"] = str(toolkit.parent)
        return environ


TABLES = [
    ("910B3",), ("910B3",) * 8, ("910B4", "910B2"), ("310P3",), ("310P3", "310P3"),
    ("910B3", "310P3"), ("310P3", "910B3"), ("910ProB",), ("910A", "910A"),
    ("Ascend910",) * 16, ("910",), ("310",), ("310B4",), ("910_9392",), ("950PR",),
    ("910B4-1",), ("Ascend910", "910B3"),
]  # fmt: skip
CASES = [
    *(Case(table) for table in TABLES),
    *(Case(("910B3",), driver) for driver in ("23.0.3", "24.1.0.3", "25.3.rc1.b061", "22.0", "x")),
    *(Case(("910B3",), cann=cann) for cann in (
        None, "8.0.0", "8.1.RC1.alpha001", "9.2.0-beta.2", "8.0.T6", "8.5", "unknown",
    )),
    Case(()), Case(has_tool=False), Case(has_tool=False, cann=None),
    *(Case(("910B3",), environ={f"{FORCE}{name}": text}) for name, text in (
        ("NPU_TYPE", "310p"), ("NPU_TYPE", "a3"), ("NPU_TYPE", "910c"), ("NPU_TYPE", "310P"),
        ("NPU_TYPE", "910-b"), ("NPU_TYPE", ""), ("DRIVER_VERSION", "25.2.0"),
        ("DRIVER_VERSION", "25"), ("CANN_VERSION", "8.3.rc1"), ("CANN_VERSION", "8.3.RC1"),
        ("CANN_VERSION", "latest"),
    )),
    Case(has_tool=False, environ={f"{FORCE}NPU_TYPE": "910b", f"{FORCE}DRIVER_VERSION": "24.1"}),
]  # fmt: skip


def ours(folder: Path, environ: dict[str, str]) -> Detection:
    """Return what the built-in provider says, of the tool and the toolkit alone."""
    # The root holds nothing but what the variables lead to: no bus, and no driver's file.
    root = folder / "root"
    for name in ("PATH", "ASCEND_TOOLKIT_HOME"):
        for place in environ.get(name, "").split(":"):
            if Path(place).is_relative_to(folder):
                link = root / place.lstrip("/")
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(place)
    return detect("ascend", root, environ, architecture=ARCHITECTURE)


def ask(python: Path, folder: Path, environ: dict[str, str]) -> tuple[Answer, Answer]:
    """Let the plugin answer: what is supported, and what it calls valid."""
    words = (python, "-I", ORACLES / "ascend_plugin.py", ARCHITECTURE, "answer.json")
    run_program(*words, cwd=folder, env=environ, timeout=100)
    supported, valid = json.loads((folder / "answer.json").read_text("utf-8"))
    return dict(supported), dict(valid)


def why(case: Case, mine: Detection, theirs: Answer) -> Iterator[Reason]:
    """Explain every difference; what has no rule fails."""
    names = {feature.name: list(feature.values) for feature in mine.features}
    if mine.status is Status.DISABLED:
        assert mine.warnings
        yield FORCED_ANYTHING
        return
    if [] in theirs.values():
        yield EMPTY
    forced = {name.removeprefix(FORCE).lower() for name, text in case.environ.items() if text}
    for name in ("npu_type", "driver_version", "cann_version"):
        here, there = names.get(name, []), theirs.get(name, [])
        if here == there:
            continue
        if name in forced:
            assert here[0] == there[0].lower()
            yield ONE_NAME if there[0].islower() else CAPITALS
        elif name == "npu_type":
            yield from why_types(case, here, there)
        else:
            assert there == []
            assert not theirs["npu_type"] or "npu_type" in forced
            yield LOST


def why_types(case: Case, here: list[str], there: list[str]) -> Iterator[Reason]:
    """Explain why the types differ."""
    found = list(dict.fromkeys(there))
    if found != there:
        yield EACH_CARD
    if found == here:
        return
    cut = {chip.lower().rstrip("0123456789"): chip.lower() for chip in case.cards}
    known = [cut[name] if cut[name] in here else name for name in found]
    if known != found:
        yield CUT
    if known != here:
        hidden = [chip for chip in case.cards if chip.lower().rstrip("0123456789") not in found]
        assert hidden, (case, here, there)
        assert [name for name in here if name in known] == known
        assert all(not chip[0].isdigit() or not chip[-1].isalpha() for chip in hidden)
        yield BY_PRODUCT


def test_same_answers_as_the_published_plugin(
    environment_with: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P-39, P-40, P-140, P-141, P-142, P-144: the same values in the same order, but for rules."""
    python = environment_with(PACKAGE)
    found: Counter[Reason] = Counter()
    alike = 0
    for number, case in enumerate(CASES):
        folder = tmp_path / str(number)
        environ = case.write(folder)
        mine = ours(folder, environ)
        theirs, valid = ask(python, folder, environ)
        assert valid == theirs  # P-28: what is valid should not depend on the machine
        names = {feature.name: list(feature.values) for feature in mine.features}
        if names == theirs:
            alike += 1
            continue
        reasons = set(why(case, mine, theirs))
        assert reasons, (case, names, theirs)
        found.update(reasons)
    title = f"{PACKAGE}: {len(CASES)} machines, {alike} alike; the differences of the others:"
    show(capsys, title, found)
    accepted = {EMPTY, EACH_CARD, LOST, BY_PRODUCT, CUT, ONE_NAME, CAPITALS, FORCED_ANYTHING}
    assert set(found) == accepted
    assert alike > len(CASES) / 4
