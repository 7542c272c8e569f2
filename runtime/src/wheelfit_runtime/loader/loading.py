"""Carry out a plan: import the implementation of a group, and fall back if it fails.

Everything that is decided is decided under one lock, and no implementation is imported under it:
an import has locks of its own, and two threads would wait for each other.
"""

from __future__ import annotations

import os
import sys
import time

try:  # `threading` has the same, and takes half of all that is spent here
    from _thread import RLock, _local
except ImportError:  # pragma: no cover - another Python
    from threading import RLock
    from threading import local as _local

from wheelfit_runtime.loader.declaration_files import TABLE, linked_folders, plain
from wheelfit_runtime.loader.quick_choice import QuickChoice, choose_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import ModuleType
    from typing import Any

    from wheelfit_runtime.loader.evidence import Evidence, Sources
    from wheelfit_runtime.loader.planning import Plan
    from wheelfit_runtime.loader.process import Process


_PAUSES = (0.001, 0.01, 0.1)
"""Seconds before an import that waited for a thread which waited for it is tried again."""
_LONGEST_WAIT = 20.0
"""Seconds a fork waits for a decision; the longest one takes the deadline of a probe."""


def explain(*groups: str) -> dict[str, Any]:
    """Return the choices that would be made, with reasons, as plain data; nothing is imported.

    :param groups: the groups to explain; none: all installed groups.
    """
    return LOADER.explain(groups)


def import_whole(name: str) -> ModuleType:
    """Import a module; if that fails, remove it and its submodules from ``sys.modules``.

    Otherwise a second import would mix parts of two.
    """
    for pause in (*_PAUSES, None):
        try:
            return _imported(name)
        except BaseException as error:
            if name in sys.modules:  # another thread is at it
                raise
            _forget_below(name)
            if pause is None or not is_deadlock(error):
                raise
        time.sleep(pause)  # that thread has what it waited for
    raise AssertionError  # pragma: no cover - the last turn returns or raises


def _imported(name: str) -> ModuleType:
    """Import a module as ``importlib.import_module`` does, which takes longer to be imported."""
    while True:
        __import__(name)
        module = sys.modules.get(name)
        if module is not None:
            return module
        # Another thread imported it and failed, and the statement does not notice.


def is_deadlock(error: BaseException) -> bool:
    """Return whether two threads waited for each other to import something, and one gave up."""
    return type(error).__name__ == "_DeadlockError"  # importlib's own, and private


def forget(name: str) -> None:
    """Forget a module and all below it, as if it had never been imported.

    :param name: as ``spam_cu12``; empty: there is none.
    """
    if name:
        sys.modules.pop(name, None)
        _forget_below(name)


def _forget_below(name: str) -> None:
    """Forget the modules below one, under all the names that they have."""
    start = f"{name}."
    there = dict(sys.modules)
    # Another package's module may have a second name here; keep it.
    own = {
        id(module)
        for each, module in there.items()
        if each.startswith(start) and getattr(module, "__name__", each).startswith(start)
    }
    for each, module in there.items():
        if each.startswith(start) or id(module) in own:
            sys.modules.pop(each, None)
            parent, _, last = each.rpartition(".")
            above = getattr(there.get(parent), "__dict__", {})
            if above.get(last) is module:
                del above[last]


class _Choice:
    """The implementation of a group, imported or to be imported.

    :param agreed: the values of shared dimensions it requires.
    :param news: the warnings to show when it is imported.
    """

    __slots__ = ("agreed", "group", "module", "name", "news", "title")

    def __init__(
        self,
        group: str,
        chosen: QuickChoice,
        agreed: Mapping[str, str] | None = None,
        news: tuple[str, ...] = (),
    ) -> None:
        self.group = group
        self.name = chosen.name
        self.title = chosen.title
        self.module = chosen.module
        self.agreed = agreed or {}
        self.news = news


class Loader:
    """The loader of implementations of one process; safe to use from threads, and after a fork.

    :param sources: returns the object that gathers evidence; called when it is needed.
    :param warn: shows a warning.
    :param quick: returns the choice for a group in simple cases; None: the case is not simple.
    :param longest_wait: seconds that a fork waits for a decision.
    """

    def __init__(
        self,
        sources: Callable[[], Sources],
        *,
        bring: Callable[[str], ModuleType] = import_whole,
        warn: Callable[[str], None],
        quick: Callable[[str], QuickChoice | None] = lambda _: None,
        longest_wait: float = _LONGEST_WAIT,
    ) -> None:
        self._sources = sources
        self._gatherer: Sources | None = None
        self._bring = bring
        self._warn = warn
        self._quick = quick
        self._longest_wait = longest_wait
        self._lock = RLock()
        self._here = _local()
        self._modules: dict[str, ModuleType] = {}
        self._choices: dict[str, _Choice] = {}
        self._failed: dict[tuple[str, str], str] = {}
        self._told: set[str] = set()

    def load(self, group: str) -> ModuleType:
        """Return the implementation of a group, imported.

        :raises NoImplementation: no implementation is compatible, or the group loads itself.
        """
        module = self._modules.get(group)
        return self._load(group) if module is None else module

    def module_of(self, group: str) -> str:
        """Return the name of the implementation of a group, also while this thread imports it."""
        # What this thread imports: another one, for which it fails, may take the choice back.
        name = self._busy().get(group)
        if name:
            return name
        try:
            return self.load(group).__name__
        except RuntimeError as error:
            choice = self._choices.get(group)
            if choice is None or not is_deadlock(error):
                raise
            # The thread that imports it waits for what this one imports: as Python does for any
            # module, go on with what is there.
            return choice.module

    def _busy(self) -> dict[str, str]:
        """Return the modules this thread imports, by group; empty text: not decided yet."""
        busy: dict[str, str] = self._here.__dict__.setdefault("busy", {})
        return busy

    def _load(self, group: str) -> ModuleType:
        busy = self._busy()
        if group in busy:
            from wheelfit_runtime.errors import NoImplementation

            raise NoImplementation(f"{group} is asked for while its own implementation is imported")
        busy[group] = ""
        try:
            return self._import_best(group)
        finally:
            del busy[group]

    def _import_best(self, group: str) -> ModuleType:
        cause: Exception | None = None
        imported = ""
        while True:
            try:
                with self._lock:
                    choice = self._decided(group, cause)
            except BaseException:
                forget(imported)
                raise
            name = choice.module
            if name != imported:
                forget(imported)
                imported = ""
            self._busy()[group] = name
            try:
                module = self._bring(name)
            except (ImportError, OSError) as error:
                cause = error
                with self._lock:
                    self._give_up(choice, error)
                continue
            except BaseException as error:
                # Of a deadlock the other thread may go on with the same.
                if not (is_deadlock(error) and name in sys.modules):
                    with self._lock:
                        self._give_up(choice)
                raise
            news: list[str] = []
            with self._lock:
                if self._choices.get(group) is not choice:
                    # Taken back by a thread for which it failed: others may have chosen since,
                    # and not with this one in mind. It can be imported, as is known now.
                    self._failed.pop((group, choice.name), None)
                    imported = name
                    continue
                if group not in self._modules:  # no other thread came first
                    self._modules[group] = module
                    news = [words for words in choice.news if words not in self._told]
                    self._told.update(news)
                module = self._modules[group]
            for words in news:
                self._warn(words)
            return module

    # --- under the lock -----------------------------------------------------------------------

    def _decided(self, group: str, cause: Exception | None) -> _Choice:
        """Return the choice for a group."""
        choice = self._choices.get(group)
        if choice is not None:
            return choice
        if not any(failed == group for failed, _ in self._failed):
            quick = self._quick(group)
            if quick is not None:
                self._choices[group] = _Choice(group, quick)
                return self._choices[group]
        evidence = self._evidence()
        made = self._planned(evidence, group)
        judged = made.chosen.get(group)
        from wheelfit_runtime.loader.reasons import nothing_left, passed_over

        if judged is None:
            evidence = self._evidence((group,))
            for key in [key for key in self._failed if key[0] == group]:
                del self._failed[key]  # an import may be tried again after a repair
            raise nothing_left(group, evidence) from cause
        # A forced one without any other claims what it is, even if the process has another.
        agreed = {d: v for d, v in made.agreed.items() if d in judged.claims}
        for value in evidence.held:
            # It has the settled values too, even if the group that settled them fails in the end.
            if value.value in judged.claims.get(value.dimension, ()):
                agreed.setdefault(value.dimension, value.value)
        implementation = judged.implementation
        chosen = QuickChoice(implementation.name, implementation.title, implementation.module)
        self._choices[group] = _Choice(group, chosen, agreed, passed_over(judged, evidence))
        return self._choices[group]

    def _evidence(self, known_of: Iterable[str] | None = ()) -> Evidence:
        from wheelfit_runtime.loader.planning import LoadedValue

        claimed = [
            LoadedValue(dimension, value, f"{group} uses {choice.title}")
            for group, choice in self._choices.items()
            for dimension, value in choice.agreed.items()
        ]
        if self._gatherer is None:
            self._gatherer = self._sources()
        return self._gatherer.gather(claimed, self._failed, known_of)

    def _planned(self, evidence: Evidence, asked: str) -> Plan:
        """Plan for the groups that have nothing yet."""
        from wheelfit_runtime.loader.planning import plan

        still_open = [
            judgement
            for judgement in evidence.judged
            if judgement.implementation.group not in self._choices
        ]
        return plan(still_open, evidence.held, asked)

    def _give_up(self, choice: _Choice, error: Exception | None = None) -> None:
        """Take back a choice that could not be imported; a thread may have come before.

        :param error: why the implementation does not fit; None: another try may go well.
        """
        if self._choices.get(choice.group) is choice and choice.group not in self._modules:
            del self._choices[choice.group]
            if error is not None:
                lines = filter(None, map(str.strip, str(error).splitlines()))
                text = plain("; ".join(lines)[:500]) or type(error).__name__
                self._failed[choice.group, choice.name] = f"cannot be loaded: {text}"

    # --- explaining ---------------------------------------------------------------------------

    def explain(self, groups: Sequence[str]) -> dict[str, Any]:
        """Return the choices that would be made, with reasons, as plain data."""
        from wheelfit_runtime.loader.reasons import as_data

        with self._lock:
            groups = tuple(dict.fromkeys(groups))
            evidence = self._evidence(groups or None)
            made = self._planned(evidence, groups[0] if groups else "")
            declared = evidence.declarations
            installed = {implementation.group for implementation in declared.implementations}
            chosen = {
                group: judgement.implementation.name for group, judgement in made.chosen.items()
            }
            agreed = dict(made.agreed)
            for group, choice in self._choices.items():
                chosen[group] = choice.name
                agreed.update(choice.agreed)
            return as_data(
                groups or sorted(installed | set(declared.known)),
                evidence,
                chosen=chosen,
                agreed=agreed,
                loaded=self._modules,
            )

    # --- around a fork ------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Wait until nothing is being decided, so that a child has all of it or nothing."""
        self._here.holds = self._lock.acquire(timeout=self._longest_wait)

    def after_fork_in_parent(self) -> None:
        """Release the lock."""
        if self._here.holds:
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """Replace the lock by a free one: the other threads do not exist in the child."""
        self._lock = RLock()


# --- this process ---------------------------------------------------------------------------------


def _look_here(names: Sequence[str], environ: Mapping[str, str], *, devices: bool) -> Process:
    from wheelfit_runtime.loader import process

    return process.look(names, process.process_view(environ), devices=devices)


def _table_here() -> Mapping[str, object] | None:
    try:
        table: Mapping[str, object] = __import__(TABLE).TABLE
    except (ImportError, AttributeError):
        return None
    return table


def _warn_here(words: str) -> None:
    from wheelfit_runtime.loader.caller_warnings import warn

    warn(words)


def _sources_here() -> Sources:
    from wheelfit_runtime.loader.evidence import Sources

    return Sources(
        environ=lambda: os.environ,
        paths=lambda: tuple(sys.path),
        look=_look_here,
        folders=linked_folders,
        table=_table_here,
    )


LOADER = Loader(_sources_here, warn=_warn_here, quick=choose_here)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=LOADER.before_fork,
        after_in_parent=LOADER.after_fork_in_parent,
        after_in_child=LOADER.after_fork_in_child,
    )
