"""Decisions about changes while other processes change the same environment."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from cli.running import Runner

from wheelfit.errors import EnvironmentBusy, NotRemovable
from wheelfit.installation.environment import Environment
from wheelfit.installation.installed import Installed
from wheelfit.installation.plan import Plan
from wheelfit.operations.changes import (
    ChangeDecision,
    ConcurrentChange,
    InstalledState,
    make_decision,
    retry_on_concurrent_change,
)
from wheelfit.operations.context import Context
from wheelfit.operations.install import InstallRequest
from wheelfit.operations.selection_session import SelectionSession, open_session
from wheelfit.resolution.resolution import Resolution
from wheelfit.testing.wheels import build_wheel


class TestRetry:
    """Decisions that are repeated after a concurrent change."""

    def test_repeated_decision(self) -> None:
        """A decision is repeated after a concurrent change."""
        wanted = cast("ChangeDecision", object())
        crossed = iter([True, True, False])

        def decide() -> ChangeDecision:
            if next(crossed):
                raise ConcurrentChange
            return wanted

        assert retry_on_concurrent_change(decide)() is wanted

    def test_endless_changes(self) -> None:
        """Endless concurrent changes are an error."""
        asked = []

        def decide() -> ChangeDecision:
            asked.append(1)
            raise ConcurrentChange

        with pytest.raises(EnvironmentBusy, match="keep changing"):
            retry_on_concurrent_change(decide)()
        assert len(asked) > 1


class TestRefusals:
    """Refusals because of an installed package."""

    @pytest.fixture
    def target(self, run: Runner, tmp_path: Path) -> Path:
        """Return a folder with a package without RECORD."""
        wheel = build_wheel(tmp_path, "demo", "1")
        target = tmp_path / "target"
        run("install", "--no-index", "--target", target, wheel)
        (target / "demo-1.dist-info" / "RECORD").unlink()
        return target

    def decide(self, session: SelectionSession, present: InstalledState) -> None:
        """Decide to remove the package."""
        plan = Plan(remove=present.installed)
        make_decision(plan, Resolution(()), present, session, lambda _: False)

    @pytest.fixture
    def session(self, target: Path) -> SelectionSession:
        """Return an open selection session."""
        request = InstallRequest(no_index=True, target=str(target), requirements=("demo",))
        return open_session(request, Context(), changes=True)

    def test_unchanged_environment(self, session: SelectionSession) -> None:
        """A reason that still holds refuses the change."""
        present = InstalledState(session.environment.installed(), ())
        with session, pytest.raises(NotRemovable):
            self.decide(session, present)

    def test_changed_environment(self, session: SelectionSession, target: Path) -> None:
        """A reason that no longer holds repeats the decision."""
        present = InstalledState(session.environment.installed(), ())
        (target / "demo-1.dist-info").rename(target / "demo-2.dist-info")
        with session, pytest.raises(ConcurrentChange):
            self.decide(session, present)

    def test_temporary_change(self, session: SelectionSession, target: Path) -> None:
        """A temporary change repeats the decision."""

        class Returning(Environment):
            def installed(self) -> tuple[Installed, ...]:
                (target / "demo-1.dist-info" / "RECORD").touch()
                return super().installed()

        present = InstalledState(session.environment.installed(), ())
        returning = Returning(*session.environment)
        ground = SimpleNamespace(environment=returning, candidates=session.candidates)
        with session, pytest.raises(ConcurrentChange):
            self.decide(cast("SelectionSession", ground), present)
