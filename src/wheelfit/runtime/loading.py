"""Carry out what is planned: import the implementation of a group, and fall back if it fails.

Everything that is decided is decided under one lock, and no implementation is imported under it:
an import has locks of its own, and two threads would wait for each other.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol

from wheelfit.errors import NoImplementation
from wheelfit.runtime.declarations import (
    FOLDER,
    TABLE,
    Declarations,
    Feature,
    Implementation,
    linked_folders,
    plain,
    scan,
)
from wheelfit.runtime.planning import Held, Judged, judge, plan
from wheelfit.runtime.telling import warn
from wheelfit.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import ModuleType
    from typing import Any

    from wheelfit.platforms.features import Detection
    from wheelfit.runtime.declarations import Known
    from wheelfit.runtime.process import Process

__all__ = ["LOADER", "MIX", "Loader", "explain", "import_whole", "variable_of"]


def __dir__() -> list[str]:
    return __all__


MIX = "WHEELFIT_MIX"
"""The variable with what a process may have several values of, as ``cuda,openmp``, or ``all``."""

_SM = Feature("nvidia", "sm_arch")
_LONGEST_WAIT = 20.0
"""Seconds a fork waits for a decision; the longest one takes the deadline of a probe."""


def explain(*groups: str) -> dict[str, Any]:
    """Return what would be chosen and why, as plain data; nothing is imported.

    :param groups: which; none: all that are installed.
    """
    return LOADER.explain(groups)


def variable_of(group: str) -> str:
    """Return the variable that names an implementation, as ``SPAM_IMPLEMENTATION``.

    :param group: as ``spam``.
    """
    word = "".join(c if c.isalnum() else "_" for c in group)
    return f"{word.upper()}_IMPLEMENTATION"


def import_whole(name: str) -> ModuleType:
    """Import a module; where that fails, leave nothing of it behind, and nothing below it.

    Else whoever imports it again would have parts of two.

    :param name: as ``spam_cu12``.
    """
    try:
        return import_module(name)
    except BaseException:
        if name not in sys.modules:  # no other thread is at it
            _forget_below(name)
        raise


def _forget_below(name: str) -> None:
    """Forget the modules below one, whatever names they were imported under."""
    there = dict(sys.modules)
    below = {id(there[each]) for each in there if each.startswith(f"{name}.")} - {id(None)}
    for each, module in there.items():
        if id(module) in below:
            sys.modules.pop(each, None)
            parent, _, last = each.rpartition(".")
            above = getattr(there.get(parent), "__dict__", {})
            if above.get(last) is module:
                del above[last]


class _View(NamedTuple):
    """Hold what a decision is made of."""

    declarations: Declarations
    process: Process
    held: tuple[Held, ...]
    judged: tuple[Judged, ...]


class _Choice(NamedTuple):
    """Hold what a group has, or will have when it is imported."""

    judged: Judged
    agreed: Mapping[str, str]
    """The values it has of what all groups share."""
    view: _View
    """What it was decided by."""


class Look(Protocol):
    """Find out what the machine supports for this process."""

    def __call__(
        self, names: Sequence[str], environ: Mapping[str, str], *, devices: bool
    ) -> Process:
        """Return what is known of some namespaces, and what the process has loaded."""
        ...


class Loader:
    """Choose among implementations for one process; safe to use from threads, and after a fork.

    :param environ: returns the environment.
    :param paths: returns where modules are looked for.
    :param look: finds out what the machine supports: given namespaces, the environment, and
        whether devices are asked for.
    :param bring: imports a module by its name.
    :param warn: tells what was passed over.
    :param folders: returns folders with declarations beside those that ``paths`` lead to.
    :param table: returns the declarations of an application that has them as a module.
    """

    def __init__(
        self,
        *,
        environ: Callable[[], Mapping[str, str]],
        paths: Callable[[], Iterable[object]],
        look: Look,
        bring: Callable[[str], ModuleType] = import_whole,
        warn: Callable[[str], None],
        folders: Callable[[], Iterable[str]] = tuple,
        table: Callable[[], Mapping[str, object] | None] = lambda: None,
    ) -> None:
        self._environ = environ
        self._paths = paths
        self._look = look
        self._bring = bring
        self._warn = warn
        self._folders = folders
        self._table = table
        self._lock = threading.RLock()
        self._held_for_fork = False
        self._here = threading.local()
        self._modules: dict[str, ModuleType] = {}
        self._choices: dict[str, _Choice] = {}
        self._failed: dict[tuple[str, str], str] = {}
        self._detections: dict[tuple[str, bool], Detection] = {}
        self._told: set[str] = set()

    def load(self, group: str) -> ModuleType:
        """Return the implementation of a group, imported.

        :param group: as ``spam``.
        :raises NoImplementation: nothing fits, or it asks for itself.
        """
        module = self._modules.get(group)
        return self._load(group) if module is None else module

    def module_of(self, group: str) -> str:
        """Return the name of the implementation of a group, also while this thread imports it.

        :param group: as ``spam``.
        :raises NoImplementation: nothing fits.
        """
        choice = self._choices.get(group)
        if choice is not None and group in self._busy():
            return choice.judged.implementation.module
        return self.load(group).__name__

    def _busy(self) -> set[str]:
        busy: set[str] = self._here.__dict__.setdefault("busy", set())
        return busy

    def _load(self, group: str) -> ModuleType:
        busy = self._busy()
        if group in busy:
            raise NoImplementation(f"{group} is asked for while its own implementation is imported")
        busy.add(group)
        try:
            cause: Exception | None = None
            while True:
                with self._lock:
                    choice = self._decided(group, cause)
                wanted = choice.judged.implementation
                try:
                    module = self._bring(wanted.module)
                except (ImportError, OSError) as error:
                    cause = error
                    with self._lock:
                        self._give_up(choice, error)
                    continue
                except BaseException:
                    with self._lock:
                        self._give_up(choice)
                    raise
                news = []
                with self._lock:
                    if group not in self._modules:  # no other thread came first
                        self._modules[group], self._choices[group] = module, choice
                        news = self._news(group, choice)
                    module = self._modules[group]
                for words in news:
                    self._warn(words)
                return module
        finally:
            busy.discard(group)

    # --- under the lock -----------------------------------------------------------------------

    def _decided(self, group: str, cause: Exception | None) -> _Choice:
        """Return what a group gets."""
        choice = self._choices.get(group)
        if choice is not None:
            return choice
        view = self._view()
        made = plan(filter(self._is_open, view.judged), view.held, group)
        judged = made.chosen.get(group)
        if judged is None:
            view = self._view((group,))
            for key in [key for key in self._failed if key[0] == group]:
                del self._failed[key]  # whoever mends something may import once more
            raise _nothing(group, view, self._environ()) from cause
        # A forced one without any other claims what it is, even if the process has another.
        agreed = {d: v for d, v in made.agreed.items() if d in judged.claims}
        self._choices[group] = _Choice(judged, agreed, view)
        return self._choices[group]

    def _is_open(self, one: Judged) -> bool:
        return one.implementation.group not in self._choices

    def _view(self, groups: Iterable[str] = ()) -> _View:
        """Look at what is declared, and at what that names of the machine.

        :param groups: of these, also at what is known and not installed.
        """
        environ = self._environ()
        declared = self._declared()
        everything = declared.implementations
        wanted = {one.feature for each in everything for one in each.properties}
        known = [each for group in groups for each in declared.known.get(group, ())]
        wanted |= {one.feature for each in known for one in each.properties}
        process = self._process({one.namespace for one in wanted}, environ, devices=_SM in wanted)
        free = {word.strip() for word in environ.get(MIX, "").split(",")} - {""}
        held = tuple(
            one for one in (*process.held, *self._claimed()) if not free & {"all", one.dimension}
        )
        requirements = {one for each in everything for one in each.requirements}
        return _View(
            declared,
            process,
            held,
            tuple(
                self._judged(judge(one, process.detections, held, requirements), environ, free)
                for one in everything
            ),
        )

    def _declared(self) -> Declarations:
        return scan(self._paths(), self._table(), self._folders())

    def _process(
        self, namespaces: Iterable[str], environ: Mapping[str, str], *, devices: bool
    ) -> Process:
        """Look at what was not looked at yet; at what is loaded always."""
        names = sorted(namespaces)
        missing = [name for name in names if (name, devices) not in self._detections]
        process = self._look(missing, environ, devices=devices)
        self._detections.update(((n, devices), found) for n, found in process.detections.items())
        found = {
            name: self._detections[name, devices]
            for name in names
            if (name, devices) in self._detections
        }
        return replace(process, detections=found)

    def _claimed(self) -> list[Held]:
        return [
            Held(dimension, value, f"{group} uses {choice.judged.implementation.title}")
            for group, choice in self._choices.items()
            for dimension, value in choice.agreed.items()
        ]

    def _judged(
        self,
        one: Judged,
        environ: Mapping[str, str],
        free: set[str],
    ) -> Judged:
        """Add to what the machine says what has failed, and what somebody demands."""
        it = one.implementation
        failed = self._failed.get((it.group, it.name))
        if failed is not None:
            one = one._replace(reasons=(*one.reasons, failed))
        if free:
            claims = {d: v for d, v in one.claims.items() if not free & {"all", d}}
            one = one._replace(claims=claims)
        name = environ.get(variable_of(it.group), "").strip()
        if not name:
            return one
        if name == it.name:
            return one._replace(forced=failed is None)
        return one._replace(reasons=(f"{variable_of(it.group)}={name}", *one.reasons))

    def _give_up(self, choice: _Choice, error: Exception | None = None) -> None:
        """Take back a choice that could not be imported; a thread may have come before.

        :param error: why the implementation does not fit; None: another try may go well.
        """
        it = choice.judged.implementation
        if self._choices.get(it.group) is choice and it.group not in self._modules:
            del self._choices[it.group]
            if error is not None:
                lines = filter(None, map(str.strip, str(error).splitlines()))
                text = plain("; ".join(lines)[:500]) or type(error).__name__
                self._failed[it.group, it.name] = f"cannot be loaded: {text}"

    def _news(self, group: str, choice: _Choice) -> list[str]:
        """Return warnings about what does not fit; each is given once in a process."""
        chosen, view = choice.judged, choice.view
        news = [words for words in view.declarations.problems if words not in self._told]
        self._told.update(news)
        news = [f"{words}; it is left out" for words in news]
        passed = [
            f"{one.implementation.title} ({'; '.join(one.reasons)})"
            for one in view.judged
            if one.implementation.group == group and one.reasons and not chosen.forced
        ]
        if passed:
            taken = chosen.implementation.title
            news.append(f"{group} uses {taken}; not supported here: {', '.join(passed)}")
        return news

    # --- around a fork -----------------------------------------------------------------------

    def before_fork(self) -> None:
        """Wait until nothing is being decided, so that a child has all of it or nothing."""
        self._held_for_fork = self._lock.acquire(timeout=_LONGEST_WAIT)

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._held_for_fork:
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """Begin with a lock that nobody has: the other threads are not here."""
        self._lock = threading.RLock()

    # --- telling -----------------------------------------------------------------------------

    def explain(self, groups: Sequence[str]) -> dict[str, Any]:
        """Return what would be chosen and why, as plain data.

        :param groups: which; none: all that are installed.
        """
        with self._lock:
            groups = tuple(dict.fromkeys(groups))
            view = self._view(groups or self._declared().known)
            made = plan(filter(self._is_open, view.judged), view.held, next(iter(groups), ""))
            environ = self._environ()
            installed = {one.group for one in view.declarations.implementations}
            names = groups or sorted(installed | set(view.declarations.known))
            chosen = {**made.chosen, **{g: choice.judged for g, choice in self._choices.items()}}
            return {
                "groups": [
                    _told(name, view, chosen.get(name), environ, is_loaded=name in self._modules)
                    for name in names
                ],
                "agreed": {
                    **made.agreed,
                    **{d: v for choice in self._choices.values() for d, v in choice.agreed.items()},
                },
                "held": [one._asdict() for one in view.held],
                "machine": {
                    name: {
                        "supported": {one.name: list(one.values) for one in detection.features},
                        "warnings": list(detection.warnings),
                        "overrides": [
                            f"{one.source}={environ[one.source]}"
                            for one in detection.evidence
                            if one.source in environ
                        ],
                    }
                    for name, detection in view.process.detections.items()
                },
                "problems": list(view.declarations.problems),
            }


# --- words ---------------------------------------------------------------------------------------


def _told(
    group: str, view: _View, chosen: Judged | None, environ: Mapping[str, str], *, is_loaded: bool
) -> dict[str, Any]:
    own = [one for one in view.judged if one.implementation.group == group]
    ordered = sorted((one for one in own if one.fits), key=lambda one: one.order)
    ordered += [one for one in own if not one.fits]
    name = None if chosen is None else chosen.implementation.name
    variable = variable_of(group)
    return {
        "group": group,
        "chosen": name,
        "loaded": is_loaded,
        "variable": variable,
        "demanded": environ.get(variable, "").strip() or None,
        "implementations": [
            _facts(one, is_chosen=one.implementation.name == name) for one in ordered
        ],
        "could_install": [one.install for one in _installable(group, view)],
    }


def _facts(one: Judged, *, is_chosen: bool) -> dict[str, Any]:
    it = one.implementation
    return {
        "implementation": it.name,
        "distribution": it.distribution or None,
        "module": it.module,
        "properties": [str(each) for each in it.properties],
        "claims": {dimension: list(values) for dimension, values in one.claims.items()},
        "state": "chosen" if is_chosen else "fits" if one.fits else "unsupported",
        "reasons": list(one.reasons),
        "file": it.where,
    }


def _installable(group: str, view: _View) -> list[Known]:
    """Return what is known and not installed and would fit, the best first."""
    installed = {
        one.implementation.name for one in view.judged if one.implementation.group == group
    }
    found = []
    for one in view.declarations.known.get(group, ()):
        if one.name not in installed:
            there = Implementation(group, one.name, "", one.properties)
            judged = judge(there, view.process.detections, view.held)
            if judged.fits:
                found.append((judged.order, one))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _nothing(group: str, view: _View, environ: Mapping[str, str]) -> NoImplementation:
    own = [one for one in view.judged if one.implementation.group == group]
    variable = variable_of(group)
    demanded = environ.get(variable, "").strip()
    names = [one.implementation.name for one in own]
    installable = [one.install for one in _installable(group, view)]
    hint = f"this machine can use: pip install {installable[0]}" if installable else None
    if len(installable) > 1:
        hint = f"{hint} (or {', '.join(installable[1:])})"
    if demanded and own and demanded not in names:
        message = f"{variable}={demanded} names no installed implementation of {group}"
        hint = f"installed are {', '.join(names)}"
        own = []
    elif demanded and own:
        message = f"{variable}={demanded} was demanded of {group}, and it fails"
        hint = f"without {variable} another one is taken"
        own = [one for one in own if one.implementation.name == demanded]
    elif own:
        message = f"no installed implementation of {group} can be used here"
    else:
        message = f"no implementation of {group} is installed"
        every = [one.install for one in view.declarations.known.get(group, ())]
        if every and not hint:
            hint = f"there are {', '.join(every)}; none of them suits this machine"
        elif not every:
            hint = f"the documentation of {group} names them; each has a file in a folder {FOLDER}"
    lines = [f"  {one.implementation.title}: {'; '.join(one.reasons)}" for one in own]
    lines += [f"  {words}" for words in view.declarations.problems]
    error = NoImplementation(
        message,
        note="\n".join(lines) or None,
        hint=hint,
        details=[_facts(one, is_chosen=False) for one in own],
    )
    error.name = group
    return error


# --- this process --------------------------------------------------------------------------------


def _look_here(names: Sequence[str], environ: Mapping[str, str], *, devices: bool) -> Process:
    from wheelfit.runtime import process  # noqa: PLC0415 - what takes longest is not always needed

    return process.look(names, process.surroundings_of(environ), devices=devices)


def _table_here() -> Mapping[str, object] | None:
    try:
        table: Mapping[str, object] = import_module(TABLE).TABLE
    except (ImportError, AttributeError):
        return None
    return table


LOADER = Loader(
    environ=lambda: os.environ,
    paths=lambda: tuple(sys.path),
    look=_look_here,
    warn=warn,
    folders=linked_folders,
    table=_table_here,
)
"""The one of this process."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=LOADER.before_fork,
        after_in_parent=LOADER.after_fork_in_parent,
        after_in_child=LOADER.after_fork_in_child,
    )
