"""A real environment: wheels unpacked into a folder, as pip and uv leave them behind."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wheelfit.checking.findings import Finding, Report
from wheelfit.core.abi_dependency import KnownVersions
from wheelfit.core.document import VariantDocument
from wheelfit.core.property_support import Support, support_for
from wheelfit.doctor.environment import diagnose_packages, examine_environment
from wheelfit.doctor.machine import Hardware
from wheelfit.installation.environment import Environment, open_environment
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.wheels import build_wheel

Answers = Mapping[str, Mapping[str, list[str]]]


class Patient:
    """Hold one environment, which tests fill and have examined."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.folder = folder
        self.wheels = wheels
        folder.mkdir()

    @property
    def environment(self) -> Environment:
        """The environment as the installer sees it."""
        return open_environment(None, environ={}, target=self.folder)

    def add(self, name: str, version: str = "1.0", **arguments: Any) -> Path:
        """Unpack a wheel over what is there, without a look at what it overwrites."""
        wheel = build_wheel(self.wheels, name, version, **arguments)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.folder)
            (info,) = {n.partition("/")[0] for n in archive.namelist() if ".dist-info/" in n}
        (self.folder / info / "INSTALLER").write_text("pip\n")
        return self.folder / info

    def report(self, answers: Answers | None = None, *, full: bool = False) -> Report:
        """Examine everything for a machine that supports what is given."""
        detector = FixedDetector(answers)
        asked = [detector.detect(namespace) for namespace in answers or {}]

        def ask(
            document: VariantDocument, namespaces: frozenset[str], known: KnownVersions
        ) -> Support:
            return support_for(
                document,
                detector,
                environment=self.environment.target.environment,
                namespaces=namespaces,
                known=known,
            )

        contents = examine_environment(self.environment, full=full)
        hardware = Hardware.of([one for one in asked if one is not None])
        return diagnose_packages(contents, self.environment.target, hardware, ask)

    def findings(
        self, answers: Answers | None = None, *, full: bool = False
    ) -> tuple[Finding, ...]:
        """Return what is found."""
        return self.report(answers, full=full).findings

    def codes(self, answers: Answers | None = None) -> list[str]:
        """Return severity and code of what is found."""
        return sorted(f"{finding.severity} {finding.code}" for finding in self.findings(answers))

    def only(self, answers: Answers | None = None, *, full: bool = False) -> Finding:
        """Return the one finding."""
        (finding,) = self.findings(answers, full=full)
        return finding
