"""Measure one release in a process of its own: ``python scale_child.py TOOL FOLDER LIMIT``.

FOLDER holds ``document.json`` and ``page.json``. Prints JSON: processor seconds by stage, the
peak of memory in MB, and what was chosen. A process that uses more than LIMIT seconds of a
processor is ended by the system.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")
UNLIMITED = 10**9
LONG_ENOUGH = 0.2  # seconds; some systems count processor time in hundredths


class Stages:
    """Measure one stage after the other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def run(self, name: str, work: Callable[[], Result]) -> Result:
        """Run a stage, short ones several times, and keep the processor time of one run."""
        begin, spent, count = time.process_time(), 0.0, 0
        while spent < LONG_ENOUGH:
            result = work()
            count += 1
            spent = time.process_time() - begin
        self.seconds[name] = spent / count
        return result


def wheelfit(folder: Path, stages: Stages) -> str:
    """Read page and document, and select among all wheels."""
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    from wheelfit.core.compatible_tags import linux_platforms, tags_for
    from wheelfit.core.metadata import read_document
    from wheelfit.core.ordering import order_labels
    from wheelfit.core.property_support import support_for
    from wheelfit.core.selection import select
    from wheelfit.core.strict_json import JsonLimits
    from wheelfit.core.target import Target
    from wheelfit.resolution.listing import sort_page
    from wheelfit.sources.simple_api import parse_page

    tags = tags_for("cpython", Version("3.13.1"), (), linux_platforms("x86_64", glibc=39))
    target = Target.of("the benchmark", {"python_full_version": "3.13.1"}, tags)
    limits = JsonLimits(size=UNLIMITED, labels=UNLIMITED, values=UNLIMITED)
    url, name = "https://index.example/simple/fastfft/", canonicalize_name("fastfft")
    body, data = (folder / "page.json").read_bytes(), (folder / "document.json").read_bytes()

    page = stages.run("page", lambda: parse_page(body, "application/json", url, name))
    listing = stages.run("names", lambda: sort_page(page, target))
    document = stages.run("document", lambda: read_document(data, where="it", limits=limits))
    (release,) = listing.releases.values()
    filenames = [wheel.filename for wheel in release.wheels]

    def support() -> Any:
        return support_for(document, None, environment=target.environment)

    def choose() -> Any:
        return select(filenames, document=document, support=support(), tags=target.tags)

    stages.run("order", lambda: order_labels(document, support()))
    selection = stages.run("selection", choose)
    stages.run("reasons", lambda: [verdict.reason for verdict in selection.verdicts])
    return str(selection.chosen.label)


def variantlib(folder: Path, stages: Stages) -> str:
    """Read the document, and order its labels; variantlib knows no page and no tags."""
    from variantlib.api import get_variants_by_priority
    from variantlib.variants_json import VariantsJson

    data = (folder / "document.json").read_bytes()
    document = stages.run("document", lambda: VariantsJson(json.loads(data)))
    ordered = stages.run("order", lambda: get_variants_by_priority(variants_json=document))
    return str(ordered[0].label)


def main(tool: str, folder: str, limit: str) -> None:
    """Measure and print."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))
    stages = Stages()
    chosen = {"wheelfit": wheelfit, "variantlib": variantlib}[tool](Path(folder), stages)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": stages.seconds, "megabytes": peak, "chosen": chosen}))


if __name__ == "__main__":
    main(*sys.argv[1:])
