"""Decisions of the real command line, in this process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from wheelfit.cli.main import main


class Decisions:
    """Run `wheelfit explain --json` against one index, for machines described by host files.

    :param index: URL of the index.
    :param folder: where host files are written.
    :param capsys: catches what is printed.
    """

    def __init__(self, index: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._index = index
        self._folder = folder
        self._capsys = capsys
        self.said = ""
        """What the last command said on standard error."""

    def host(
        self,
        supported: Mapping[str, Mapping[str, Sequence[str]]],
        *,
        devices: Mapping[str, Sequence[tuple[str, str, Sequence[str]]]] | None = None,
        **tables: Any,
    ) -> Path:
        """Write a host file: values by namespace and feature, most preferred first."""
        providers = [
            {
                "namespace": namespace,
                "feature-order": list(features),
                "properties": {name: list(values) for name, values in features.items()},
                "devices": [
                    {"feature": feature, "device": device, "values": list(values)}
                    for feature, device, values in (devices or {}).get(namespace, ())
                ],
            }
            for namespace, features in supported.items()
        ]
        path = self._folder / f"host-{len(list(self._folder.glob('host-*')))}.toml"
        content = {
            "metadata": {"created-by": "a test", "version": "0.1"},
            "provider": providers,
            **tables,
        }
        path.write_text(tomli_w.dumps(content))
        return path

    def explain(self, requirement: str, *words: str | Path, code: int = 0) -> dict[str, Any]:
        """Return the explanation of one project."""
        status = main(
            [
                "explain",
                "--json",
                "--no-cache-dir",
                "-i",
                self._index,
                *map(str, words),
                requirement,
            ]
        )
        captured = self._capsys.readouterr()
        self.said = captured.err
        answer = json.loads(captured.out)
        assert status == code, answer
        if "error" in answer:
            return dict(answer["error"])
        (project,) = answer["projects"]
        return dict(project)

    def label(self, requirement: str, *words: str | Path) -> str | None:
        """Return the chosen label; None for a plain wheel."""
        chosen = self.explain(requirement, *words)["chosen"]
        label: str | None = chosen["label"]
        return label

    def order(self, requirement: str, *words: str | Path) -> list[str | None]:
        """Return the compatible labels, best first, each once; None for plain wheels."""
        project = self.explain(requirement, *words)
        return list(
            dict.fromkeys(
                candidate["label"]
                for candidate in project["candidates"]
                if candidate["verdict"] != "rejected"
            )
        )

    def rejected(self, requirement: str, *words: str | Path) -> dict[str | None, str]:
        """Return the reason for each rejected label."""
        candidates = self.explain(requirement, *words)["candidates"]
        return {
            candidate["label"]: candidate["reason"]
            for candidate in candidates
            if candidate["verdict"] == "rejected"
        }
