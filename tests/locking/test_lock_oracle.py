"""A machine takes from a lock what it needs and nothing else, by the metadata of small worlds."""

from __future__ import annotations

import itertools
import random

import pytest
from locking.shelf import Shelf, cuda
from packaging.utils import canonicalize_name

from wheelfit.core.provider_lookup import Detector
from wheelfit.core.requirements import Requirement, parse_requirement
from wheelfit.locking.environments import LockEnvironment, environments_for
from wheelfit.locking.locking import LockResult, lock_everywhere
from wheelfit.locking.request import LockNeeds, Root
from wheelfit.locking.selection import LockCandidates
from wheelfit.locking.solving import Solver
from wheelfit.resolution.resolution import Pin
from wheelfit.testing.detectors import FixedDetector
from wheelfit_runtime.errors import NoFit

pytestmark = pytest.mark.integration

NAMES = "abcdef"
EXTRAS = ("one", "two")
CONDITIONS = (
    "",
    "",
    "",
    "sys_platform == 'win32'",
    "python_version < '3.12'",
    "sys_platform != 'win32'",
)
ENVIRONMENTS = environments_for(["linux-x86_64", "windows-x86_64"], [(3, 11), (3, 12)])
MACHINES = tuple(
    FixedDetector({"nvidia": {"cuda_version_lower_bound": values}} if values else {})
    for values in ([], ["12.0"], ["13.0", "12.0"])
)
BEST = MACHINES[-1]


class Universe:
    """Hold a shelf of releases that need each other at random, and what is asked for.

    :param seed: of the chance.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._shelf = Shelf()
        self._needs: dict[tuple[str, str, str], list[str]] = {}
        for name, version in itertools.product(NAMES, "12"):
            self._add(name, version)
        roots = [Root(self._asked()) for _ in range(self._random.choice([1, 2]))]
        roots += [
            Root(self._asked(), extra=canonicalize_name(extra))
            for extra in EXTRAS
            if self._random.random() < 0.6
        ]
        roots += [Root(self._asked(), group=canonicalize_name("dev"))]
        self.roots = tuple(roots)

    def lock(self) -> LockResult:
        """Lock for all environments."""
        request = LockNeeds(roots=self.roots, extras=tuple(map(canonicalize_name, EXTRAS)))
        return lock_everywhere(Solver(request, self._shelf, threads=0), ENVIRONMENTS)

    def wrong(
        self,
        locked: LockResult,
        environment: LockEnvironment,
        machine: Detector,
        extras: tuple[str, ...],
        groups: tuple[str, ...],
    ) -> list[str]:
        """Return what a machine lacks of what it takes from the lock, and what nobody needs."""
        target = environment.target
        candidates = LockCandidates(
            locked.lock, target, machine, extras=extras, groups=groups
        ).select()
        pins = {pin.name: pin for pin in candidates.resolution().pins}
        pending = [
            root.requirement
            for root in self.roots
            if (root.extra is None or root.extra in extras)
            and (root.group is None or root.group in groups)
            and root.requirement.applies(target.environment)
        ]
        found = []
        seen = set()
        while pending:
            needed = pending.pop()
            pin = pins.get(needed.name)
            if pin is None or not needed.specifier.contains(pin.version):
                found.append(f"{needed} is not met by {pin}")
            elif (key := (pin.name, needed.extras)) not in seen:
                seen.add(key)
                pending += self._needed(pin, needed, environment)
        met = {name for name, _ in seen}
        return found + [f"nobody needs {name}" for name in pins if name not in met]

    def _needed(
        self, pin: Pin, asked: Requirement, environment: LockEnvironment
    ) -> list[Requirement]:
        texts = self._needs[pin.name, str(pin.version), pin.label or ""]
        needs = [parse_requirement(text, allow_variant_markers=True) for text in texts]
        values = environment.target.environment
        return [one for one in needs if one.applies(values, asked.extras, pin.choice.context())]

    def _add(self, name: str, version: str) -> None:
        if self._random.random() < 0.4:
            variants = cuda(*self._random.choice([("12",), ("13",), ("12", "13")]))
            same = self._texts(name)
            labels = [*variants, ""]
            needs = {
                label: same if self._random.random() < 0.4 else self._texts(name)
                for label in labels
            }
            self._shelf.add_variants(f"{name} {version}", variants, needs)
        else:
            needs = {"": self._texts(name)}
            self._shelf.add(f"{name} {version}", requires=needs[""], extras=["x", "y"])
        self._needs |= {(name, version, label): texts for label, texts in needs.items()}

    def _texts(self, own: str) -> list[str]:
        always = [self._text(own) for _ in range(self._random.choice([0, 0, 1, 1, 2]))]
        more = [self._text(own, extra) for extra in "xy" if self._random.random() < 0.5]
        return always + more

    def _text(self, own: str, extra: str = "", conditions: tuple[str, ...] = CONDITIONS) -> str:
        name = self._random.choice([name for name in NAMES if name != own])
        wanted = f"[{self._random.choice('xy')}]" if self._random.random() < 0.35 else ""
        bounds = self._random.choice(["", "", "", "<2", ">=2"])
        if own:
            conditions = (*conditions, "'cu12' in variant_label")
        terms = [self._random.choice(conditions), f"extra == '{extra}'" if extra else ""]
        marker = " and ".join(filter(None, terms))
        return f"{name}{wanted}{bounds}" + (f"; {marker}" if marker else "")

    def _asked(self) -> Requirement:
        return parse_requirement(self._text(""), allow_variant_markers=False)


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_neither_too_little_nor_too_much(start: int) -> None:
    """F-120, F-121: with any extras and groups, on machines of any kind.

    A lock may have nothing for machines without accelerators, which it says; the best machine
    always finds something.
    """
    tried = 0
    for seed in range(start, start + 10):
        universe = Universe(seed)
        try:
            locked = universe.lock()
        except NoFit:
            continue
        tried += 1
        lost = any(
            "no wheel is locked for machines without a compatible label" in note
            for note in locked.notes
        )
        asked = itertools.product(((), EXTRAS[:1], EXTRAS), ((), ("dev",)))
        for (extras, groups), settled, machine in itertools.product(
            asked, locked.environments, MACHINES
        ):
            try:
                wrong = universe.wrong(locked, settled.environment, machine, extras, groups)
            except NoFit:
                assert lost, seed
                assert machine is not BEST, seed
            else:
                assert wrong == [], (seed, settled.environment.name, extras, groups)
    assert tried > 5
