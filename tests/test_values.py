"""Classes of fields: what is made late behaves as what `dataclasses` makes at once."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from wheelfit import values

SOURCE = '''
from __future__ import annotations
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Frozen:
    """A value."""

    first: int
    second: str = "x"
    third: dict = field(default_factory=dict, hash=False)
    fourth: object = field(default=None, compare=False, repr=False)
    kind: ClassVar[str] = "frozen"

    def doubled(self) -> int:
        return 2 * self.first


@dataclass(frozen=True, slots=True)
class Further(Frozen):
    """A value with more."""

    fifth: int = 5


@dataclass(frozen=True)
class Plain:
    """Without slots."""

    first: int = 1
    second: list = field(default_factory=list)


@dataclass(slots=True)
class Mutable:
    """Something that changes."""

    first: int
    second: list = field(default_factory=list)


@dataclass(frozen=True, slots=True, order=True)
class Ordered:
    """Something that has an order."""

    first: int
    second: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Itself:
    """Equal to nothing else."""

    first: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """With something that is worked out."""

    first: int
    worked_out: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "worked_out", self.first + 1)


@dataclass(frozen=True, slots=True)
class Own:
    """With methods of its own."""

    first: int

    def __repr__(self) -> str:
        return "own"

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)
'''


def made_by(module: ModuleType) -> SimpleNamespace:
    """Return the classes above as a module makes them."""
    name = f"made_by_{module.__name__.replace('.', '_')}"
    made = sys.modules[name] = ModuleType(name)
    made.__dict__.update(dataclass=module.dataclass, field=module.field, replace=module.replace)
    exec(SOURCE, made.__dict__)
    return SimpleNamespace(**made.__dict__)


BOTH = [made_by(dataclasses), made_by(values)]

CASES: dict[str, Callable[[Any], object]] = {
    "by place": lambda m: repr(m.Frozen(1, "y", {"z": 1}, 4)),
    "by name": lambda m: repr(m.Frozen(first=1, third={})),
    "defaults": lambda m: repr(m.Frozen(1)),
    "own defaults": lambda m: m.Mutable(1).second is not m.Mutable(1).second,
    "fresh": lambda m: (m.Frozen(1).third, m.Plain().second, m.Frozen(1).fourth, m.Frozen.kind),
    "methods": lambda m: m.Frozen(3).doubled(),
    "further": lambda m: repr(m.Further(1, fifth=6)),
    "further is one": lambda m: isinstance(m.Further(1), m.Frozen),
    "same": lambda m: m.Frozen(1) == m.Frozen(1, fourth=9),
    "other": lambda m: m.Frozen(1) == m.Frozen(2),
    "other class": lambda m: m.Frozen(1) == m.Further(1),
    "no value": lambda m: m.Frozen(1) == 1,
    "hash": lambda m: hash(m.Frozen(1, third={"a": 1})) == hash(m.Frozen(1)),
    "hash counts": lambda m: len({m.Frozen(1), m.Frozen(1), m.Frozen(2), m.Further(1)}),
    "hash of what changes": lambda m: hash(m.Mutable(1)),
    "too few": lambda m: m.Frozen(),
    "too many": lambda m: m.Mutable(1, [], 3),
    "unknown": lambda m: m.Frozen(1, sixth=1),
    "assigned": lambda m: setattr(m.Frozen(1), "first", 2),
    "assigned elsewhere": lambda m: setattr(m.Plain(1), "other", 2),
    "deleted": lambda m: delattr(m.Frozen(1), "first"),
    "changed": lambda m: setattr(m.Mutable(1), "first", 2),
    "no such slot": lambda m: setattr(m.Mutable(1), "other", 2),
    "order": lambda m: repr(sorted([m.Ordered(2), m.Ordered(1, 5), m.Ordered(1)])),
    "orders": lambda m: (
        m.Ordered(1) < m.Ordered(2),
        m.Ordered(1) <= m.Ordered(1),
        m.Ordered(1) > m.Ordered(2),
        m.Ordered(1) >= m.Ordered(1),
    ),
    "no order": lambda m: m.Ordered(1) < 2,
    "itself": lambda m: (m.Itself(1) == m.Itself(1), len({m.Itself(1), m.Itself(1)})),
    "prepared": lambda m: (m.Prepared(1).worked_out, repr(m.Prepared(1))),
    "prepared is not given": lambda m: m.Prepared(1, 2),
    "own methods": lambda m: (repr(m.Own(1)), hash(m.Own(1)), m.Own(1) == m.Own(2)),
    "pickled": lambda m: repr(pickle.loads(pickle.dumps(m.Frozen(1, "z")))),
    "copied": lambda m: repr(copy.copy(m.Frozen(1, "z"))),
    "copied deeply": lambda m: repr(copy.deepcopy(m.Plain(1, [[2]]))),
    "replaced": lambda m: repr(m.replace(m.Frozen(1, "z"), first=2)),
    "replaced nothing known": lambda m: m.replace(m.Frozen(1), sixth=2),
    "replaced what is worked out": lambda m: m.replace(m.Prepared(1), first=5).worked_out,
    "replaced what cannot be": lambda m: m.replace(m.Prepared(1), worked_out=5),
    "matched": lambda m: m.Further.__match_args__,
    "names": lambda m: [one.name for one in dataclasses.fields(m.Further)],
    "given to dataclasses": lambda m: (
        dataclasses.is_dataclass(m.Frozen),
        dataclasses.asdict(m.Further(1)),
        repr(dataclasses.replace(m.Frozen(1), first=2)),
    ),
    "called": lambda m: (m.Frozen.__init__.__name__, m.Frozen.__init__.__qualname__),
    "size": lambda m: hasattr(m.Frozen(1), "__dict__"),
    "class without slots": lambda m: m.Plain.first,
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_as_dataclasses(case: str) -> None:
    """Whatever is done with such a class gives what it gives with `dataclasses`."""
    results = []
    for made in BOTH:
        try:
            results.append((CASES[case](made), CASES[case](made)))
        except Exception as error:  # noqa: BLE001 - compared
            results.append((type(error), str(error)))
    assert results[0] == results[1]


def test_methods_are_written_once_for_all_threads() -> None:
    """Threads that make the first value of a class at one moment all get sound ones."""
    made = made_by(values)
    start = threading.Barrier(8)
    found = []

    def work() -> None:
        start.wait()
        found.append(made.Frozen(1))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {made.Frozen(1)}
    assert len(found) == 8


@pytest.mark.parametrize("case", ["by place", "prepared", "too few", "unknown", "replaced"])
def test_however_often(case: str) -> None:
    """The first values of a class and later ones are made in two ways, which agree."""
    made = made_by(values)
    results = []
    for _ in range(60):
        try:
            results.append(CASES[case](made))
        except TypeError as error:
            results.append(str(error))
    assert len({str(one) for one in results}) == 1


def test_dataclasses_is_not_imported() -> None:
    """Neither is what makes importing it slow."""
    program = (
        "import sys\nfrom wheelfit.values import dataclass\n"
        "@dataclass(frozen=True, slots=True)\nclass A:\n    a: int\n"
        "assert A(1) == A(1) and hash(A(1)) and repr(A(1))\n"
        "print({'dataclasses', 'inspect'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
