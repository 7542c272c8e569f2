"""On which line of a TOML document a place is."""

from __future__ import annotations

import pytest

from wheelfit.core.toml_lines import line_of

TEXT = """\
# a comment with key = 1
[metadata]
version = "0.1"

[[provider]]
namespace = "a"
properties = {level = ["v1"]}

[[provider]]
  namespace = "b"
  evidence = [
    {source = "x", value = \"\"\"
key = 1
\"\"\"},
  ]
  [provider.properties]
  "sm_arch" = ["90"]
  [[provider.devices]]
  feature = "f"
  [[provider.devices]]
  feature = "g"

[interpreter]
a.b = 1
several = [ # one, two ]
  "one", "]",
  2026-01-02 03:04:05, { x = [1.5] },
]
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("metadata", 2),
        ("metadata.version", 3),
        ("metadata.missing", 2),
        ("provider", 5),
        ("provider[0]", 5),
        ("provider[0].properties.level", 7),
        ("provider[1]", 9),
        ("provider[1].namespace", 10),
        ("provider[1].evidence[0].source", 12),
        ("provider[1].properties.sm_arch[0]", 17),
        ("interpreter.several[1]", 26),
        ("interpreter.several[3].x[0]", 27),
        ("provider[1].properties.sm_arch", 17),
        ("provider[1].devices[0].feature", 19),
        ("provider[1].devices[1].feature", 21),
        ("provider[1].devices[1].values", 20),
        ("provider[2].namespace", 5),
        ("interpreter.a", 24),
        ("interpreter.a.b", 24),
        ("key", None),
        ("platform.tags", None),
    ],
)
def test_the_line_of_a_place(path: str, line: int | None) -> None:
    """The line of a key, or else of what is nearest around it."""
    assert line_of(TEXT, path) == line
