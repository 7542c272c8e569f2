"""Claims about deciding on a change while others change the same environment."""

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


class TestInPeace:
    """A decision that others cross."""

    def test_again(self) -> None:
        """What was crossed is decided anew."""
        wanted = cast("ChangeDecision", object())
        crossed = iter([True, True, False])

        def decide() -> ChangeDecision:
            if next(crossed):
                raise ConcurrentChange
            return wanted

        assert retry_on_concurrent_change(decide)() is wanted

    def test_no_end(self) -> None:
        """Others who never stop are an error in the end, of which nothing is the user's fault."""
        asked = []

        def decide() -> ChangeDecision:
            asked.append(1)
            raise ConcurrentChange

        with pytest.raises(EnvironmentBusy, match="keep changing"):
            retry_on_concurrent_change(decide)()
        assert len(asked) > 1


class TestRefusals:
    """A refusal for what is installed."""

    @pytest.fixture
    def target(self, run: Runner, tmp_path: Path) -> Path:
        """Return a folder with a package whose RECORD is gone."""
        wheel = build_wheel(tmp_path, "demo", "1")
        target = tmp_path / "target"
        run("install", "--no-index", "--target", target, wheel)
        (target / "demo-1.dist-info" / "RECORD").unlink()
        return target

    def decide(self, opened: SelectionSession, present: InstalledState) -> None:
        """Decide that the package goes."""
        plan = Plan(remove=present.installed)
        make_decision(plan, Resolution(()), present, opened, lambda _: False)

    @pytest.fixture
    def opened(self, target: Path) -> SelectionSession:
        """Return everything that a command opens."""
        request = InstallRequest(no_index=True, target=str(target), requirements=("demo",))
        return open_session(request, Context(), changes=True)

    def test_so_it_is(self, opened: SelectionSession) -> None:
        """What is still so when nobody is at work is refused."""
        present = InstalledState(opened.environment.installed(), ())
        with opened, pytest.raises(NotRemovable):
            self.decide(opened, present)

    def test_so_it_was(self, opened: SelectionSession, target: Path) -> None:
        """What was so in the middle of another's work is looked at again."""
        present = InstalledState(opened.environment.installed(), ())
        (target / "demo-1.dist-info").rename(target / "demo-2.dist-info")
        with opened, pytest.raises(ConcurrentChange):
            self.decide(opened, present)

    def test_back_again(self, opened: SelectionSession, target: Path) -> None:
        """What was away for a moment only, and is back as it was, is looked at again."""

        class Returning(Environment):
            def installed(self) -> tuple[Installed, ...]:
                (target / "demo-1.dist-info" / "RECORD").touch()
                return super().installed()

        present = InstalledState(opened.environment.installed(), ())
        returning = Returning(*opened.environment)
        ground = SimpleNamespace(environment=returning, candidates=opened.candidates)
        with opened, pytest.raises(ConcurrentChange):
            self.decide(cast("SelectionSession", ground), present)
