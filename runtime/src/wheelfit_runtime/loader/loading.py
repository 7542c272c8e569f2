"""Import the implementation of a group, and fall back to another one if that fails.

A group has alternative modules for one purpose, built for different machines.

Decisions are made under one lock. Imports are made without it: they have locks of their own, so two
threads could wait for each other.
"""

from __future__ import annotations

import os
import sys
import time

try:  # importing `threading` would double the time of importing this module
    from _thread import RLock, _local
except ImportError:  # pragma: no cover - another Python
    from threading import RLock
    from threading import local as _local

from wheelfit_runtime.loader.declaration_files import TABLE, escaped, linked_folders
from wheelfit_runtime.loader.quick_choice import QuickChoice, choose_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import ModuleType
    from typing import Any

    from wheelfit_runtime.loader.evidence import Evidence, EvidenceGatherer
    from wheelfit_runtime.loader.planning import Plan
    from wheelfit_runtime.loader.process import Process


_PAUSES = (0.001, 0.01, 0.1)
"""Seconds before further attempts of an import that failed by a deadlock."""
_LONGEST_WAIT = 20.0
"""Seconds that a fork waits for a decision, which may take as long as the deadline of a probe."""


def explain(*groups: str) -> dict[str, Any]:
    """Return the choices that would be made, with reasons, as plain data; nothing is imported.

    :param groups: the groups to explain; none: all installed groups.
    """
    return LOADER.explain(groups)


def import_or_remove(name: str) -> ModuleType:
    """Import a module; if that fails, remove it and its submodules from ``sys.modules``.

    Otherwise a second import would use submodules of the first.
    """
    for pause in (*_PAUSES, None):
        try:
            return _imported(name)
        except BaseException as error:
            if name in sys.modules:  # not left by this import: another thread imports it
                raise
            _remove_submodules(name)
            if pause is None or not is_deadlock(error):
                raise
        time.sleep(pause)  # the other thread can go on
    raise AssertionError  # pragma: no cover - the last attempt returns or raises


def _imported(name: str) -> ModuleType:
    """Import a module as ``importlib.import_module`` does, without importing `importlib`."""
    while True:
        __import__(name)
        module = sys.modules.get(name)
        if module is not None:
            return module
        # Another thread imported it and failed, which `__import__` does not report.


def is_deadlock(error: BaseException) -> bool:
    """Return whether an import failed because two threads waited for each other."""
    return type(error).__name__ == "_DeadlockError"  # private in importlib


def remove_modules(name: str) -> None:
    """Remove a module and its submodules from ``sys.modules``.

    :param name: the module, such as ``spam_cu12``; empty: none.
    """
    if name:
        sys.modules.pop(name, None)
        _remove_submodules(name)


def _remove_submodules(name: str) -> None:
    """Remove the submodules of a module from ``sys.modules``, under all their names."""
    start = f"{name}."
    modules = dict(sys.modules)
    # A module of another package may have a second name here: remove only that name.
    submodule_ids = {
        id(module)
        for full_name, module in modules.items()
        if full_name.startswith(start) and getattr(module, "__name__", full_name).startswith(start)
    }
    for full_name, module in modules.items():
        if full_name.startswith(start) or id(module) in submodule_ids:
            sys.modules.pop(full_name, None)
            parent, _, attribute = full_name.rpartition(".")
            parent_names = getattr(modules.get(parent), "__dict__", {})
            if parent_names.get(attribute) is module:
                del parent_names[attribute]


class _GroupChoice:
    """The implementation of a group, imported or to be imported.

    :param agreed: the values it requires that all groups share, such as the CUDA major.
    :param warnings: the warnings to show when it is imported.
    """

    def __init__(
        self,
        group: str,
        chosen: QuickChoice,
        agreed: Mapping[str, str] | None = None,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.group = group
        self.name = chosen.name
        self.title = chosen.title
        self.module = chosen.module
        self.agreed = agreed or {}
        self.warnings = warnings


class Loader:
    """The loader of implementations of one process; safe to use from threads, and after a fork.

    :param quick_choice: returns the choice for a group in simple cases; None in others.
    :param longest_wait: seconds that a fork waits for a decision.
    """

    def __init__(
        self,
        make_gatherer: Callable[[], EvidenceGatherer],
        *,
        import_module: Callable[[str], ModuleType] = import_or_remove,
        warn: Callable[[str], None],
        quick_choice: Callable[[str], QuickChoice | None] = lambda _: None,
        longest_wait: float = _LONGEST_WAIT,
    ) -> None:
        self._make_gatherer = make_gatherer
        self._gatherer: EvidenceGatherer | None = None
        self._import_module = import_module
        self._warn = warn
        self._quick_choice = quick_choice
        self._longest_wait = longest_wait
        self._lock = RLock()
        self._local = _local()
        self._modules: dict[str, ModuleType] = {}
        self._choices: dict[str, _GroupChoice] = {}
        self._failed: dict[tuple[str, str], str] = {}
        self._shown_warnings: set[str] = set()

    def load(self, group: str) -> ModuleType:
        """Return the implementation of a group, imported.

        :raises NoImplementation: no implementation is compatible, or the group loads itself.
        """
        module = self._modules.get(group)
        return self._load(group) if module is None else module

    def module_of(self, group: str) -> str:
        """Return the name of the implementation of a group, also while this thread imports it."""
        # Not from `_choices`: another thread may withdraw the choice during this import.
        name = self._importing().get(group)
        if name:
            return name
        try:
            return self.load(group).__name__
        except RuntimeError as error:
            choice = self._choices.get(group)
            if choice is None or not is_deadlock(error):
                raise
            # The importing thread waits for this one: use the partly imported module, as Python
            # does.
            return choice.module

    def _importing(self) -> dict[str, str]:
        """Return the module that this thread imports, by group; an empty name: undecided."""
        importing: dict[str, str] = self._local.__dict__.setdefault("importing", {})
        return importing

    def _load(self, group: str) -> ModuleType:
        importing = self._importing()
        if group in importing:
            from wheelfit_runtime.errors import NoImplementation

            raise NoImplementation(f"{group} is loaded while its own implementation is imported")
        importing[group] = ""
        try:
            return self._import_best(group)
        finally:
            del importing[group]

    def _import_best(self, group: str) -> ModuleType:
        cause: Exception | None = None
        leftover = ""  # a module imported for a choice that another thread withdrew
        while True:
            try:
                with self._lock:
                    choice = self._decide(group, cause)
            except BaseException:
                remove_modules(leftover)
                raise
            name = choice.module
            if name != leftover:  # the new choice is another one
                remove_modules(leftover)
                leftover = ""
            self._importing()[group] = name
            try:
                module = self._import_module(name)
            except (ImportError, OSError) as error:
                cause = error
                with self._lock:
                    self._give_up(choice, error)
                continue
            except BaseException as error:
                # After a deadlock the other thread may go on with the same module.
                if not (is_deadlock(error) and name in sys.modules):
                    with self._lock:
                        self._give_up(choice)
                raise
            warnings: list[str] = []
            with self._lock:
                if self._choices.get(group) is not choice:
                    # Another thread failed to import it and withdrew the choice. Here the import
                    # succeeded, so decide again, without that failure.
                    self._failed.pop((group, choice.name), None)
                    leftover = name
                    continue
                if group not in self._modules:  # no other thread was faster
                    self._modules[group] = module
                    warnings = [
                        warning
                        for warning in choice.warnings
                        if warning not in self._shown_warnings
                    ]
                    self._shown_warnings.update(warnings)
                module = self._modules[group]
            for warning in warnings:
                self._warn(warning)
            return module

    # --- under the lock -----------------------------------------------------------------------

    def _decide(self, group: str, cause: Exception | None) -> _GroupChoice:
        choice = self._choices.get(group)
        if choice is not None:
            return choice
        if not any(failed == group for failed, _ in self._failed):
            quick_choice = self._quick_choice(group)
            if quick_choice is not None:
                self._choices[group] = _GroupChoice(group, quick_choice)
                return self._choices[group]
        evidence = self._evidence()
        made_plan = self._make_plan(evidence, group)
        judgement = made_plan.chosen.get(group)
        from wheelfit_runtime.loader.reasons import choice_warnings, no_implementation_error

        if judgement is None:
            # The error also names implementations of the group that are not installed.
            evidence = self._evidence((group,))
            for key in [key for key in self._failed if key[0] == group]:
                del self._failed[key]  # an import may be tried again after a repair
            raise no_implementation_error(group, evidence) from cause
        # A forced implementation may claim other values than the agreed ones.
        agreed = {
            dimension: value
            for dimension, value in made_plan.agreed.items()
            if dimension in judgement.claims
        }
        for loaded_value in evidence.loaded_values:
            # A loaded value that the implementation claims stays agreed, even if the import of the
            # group that loaded it fails later.
            if loaded_value.value in judgement.claims.get(loaded_value.dimension, ()):
                agreed.setdefault(loaded_value.dimension, loaded_value.value)
        implementation = judgement.implementation
        chosen = QuickChoice(implementation.name, implementation.title, implementation.module)
        self._choices[group] = _GroupChoice(
            group, chosen, agreed, choice_warnings(judgement, evidence)
        )
        return self._choices[group]

    def _evidence(self, known_groups: Iterable[str] | None = ()) -> Evidence:
        from wheelfit_runtime.loader.planning import LoadedValue

        claimed = [
            LoadedValue(dimension, value, f"{group} uses {choice.title}")
            for group, choice in self._choices.items()
            for dimension, value in choice.agreed.items()
        ]
        if self._gatherer is None:
            self._gatherer = self._make_gatherer()
        return self._gatherer.gather(claimed, self._failed, known_groups)

    def _make_plan(self, evidence: Evidence, imported_group: str) -> Plan:
        from wheelfit_runtime.loader.planning import plan

        judgements = [
            judgement
            for judgement in evidence.judgements
            if judgement.implementation.group not in self._choices
        ]
        return plan(judgements, evidence.loaded_values, imported_group)

    def _give_up(self, choice: _GroupChoice, error: Exception | None = None) -> None:
        """Withdraw a choice that could not be imported, unless another thread has done so.

        :param error: the fault of the implementation; None: a later import may succeed.
        """
        if self._choices.get(choice.group) is choice and choice.group not in self._modules:
            del self._choices[choice.group]
            if error is not None:
                lines = filter(None, map(str.strip, str(error).splitlines()))
                text = escaped("; ".join(lines)[:500]) or type(error).__name__
                self._failed[choice.group, choice.name] = f"cannot be loaded: {text}"

    # --- explaining ---------------------------------------------------------------------------

    def explain(self, groups: Sequence[str]) -> dict[str, Any]:
        """Return the choices that would be made, with reasons, as plain data."""
        from wheelfit_runtime.loader.reasons import explanation_data

        with self._lock:
            groups = tuple(dict.fromkeys(groups))
            evidence = self._evidence(groups or None)
            made_plan = self._make_plan(evidence, groups[0] if groups else "")
            declared = evidence.declarations
            installed = {implementation.group for implementation in declared.implementations}
            chosen = {
                group: judgement.implementation.name
                for group, judgement in made_plan.chosen.items()
            }
            agreed = dict(made_plan.agreed)
            for group, choice in self._choices.items():
                chosen[group] = choice.name
                agreed.update(choice.agreed)
            return explanation_data(
                groups or sorted(installed | set(declared.known)),
                evidence,
                chosen=chosen,
                agreed=agreed,
                loaded=self._modules,
            )

    # --- around a fork ------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Wait for a decision in progress, so that the child has a consistent state."""
        self._local.has_lock = self._lock.acquire(timeout=self._longest_wait)

    def after_fork_in_parent(self) -> None:
        """Release the lock."""
        if self._local.has_lock:
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """Replace the lock by a free one: the other threads do not exist in the child."""
        self._lock = RLock()


# --- this process ---------------------------------------------------------------------------------


def _detect_here(names: Sequence[str], environ: Mapping[str, str], *, devices: bool) -> Process:
    from wheelfit_runtime.loader import process

    return process.detect(names, process.process_view(environ), devices=devices)


def _table_here() -> Mapping[str, object] | None:
    try:
        table: Mapping[str, object] = __import__(TABLE).TABLE
    except (ImportError, AttributeError):
        return None
    return table


def _warn_here(message: str) -> None:
    from wheelfit_runtime.loader.caller_warnings import warn

    warn(message)


def _gatherer_here() -> EvidenceGatherer:
    from wheelfit_runtime.loader.evidence import EvidenceGatherer

    return EvidenceGatherer(
        environ=lambda: os.environ,
        paths=lambda: tuple(sys.path),
        detect=_detect_here,
        folders=linked_folders,
        table=_table_here,
    )


LOADER = Loader(_gatherer_here, warn=_warn_here, quick_choice=choose_here)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=LOADER.before_fork,
        after_in_parent=LOADER.after_fork_in_parent,
        after_in_child=LOADER.after_fork_in_child,
    )
