"""Choose the wheel of a project that fits a machine, as an installer does that knows variants.

``python choose.py INDEX PROJECT [HOST]`` prints the URL of the wheel. Copy `choose` into a tool
that has file names and a way to fetch a file.
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from typing import TYPE_CHECKING
from urllib.parse import urljoin
from urllib.request import Request, urlopen

from packaging.version import Version

from wheelfit import Context, SelectRequest, read_variants_json, select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def choose(
    names: Iterable[str], fetch: Callable[[str], bytes], host: str | None = None
) -> str | None:
    """Return the name of the wheel to install, of the newest release with one that fits.

    :param names: every file that the index lists of a project.
    :param fetch: returns a file by its name.
    :param host: a host file or preset; None: this machine.
    """
    listed = set(names)
    wheels = sorted((name for name in listed if name.endswith(".whl")), key=version)
    for release, group in reversed([(one, list(each)) for one, each in groupby(wheels, version)]):
        project = group[0].partition("-")[0]
        document = f"{project}-{release}-variants.json"
        metadata = read_variants_json(fetch(document)) if document in listed else None
        request = SelectRequest(filenames=tuple(group), document=metadata, host=host)
        selection = select(request, Context())
        for verdict in selection.verdicts:
            print(f"{verdict.verdict}: {verdict.filename.text}: {verdict.reason}", file=sys.stderr)
        if selection.chosen is not None:
            return selection.chosen.text
    return None


def version(name: str) -> Version:
    """Return the version in the name of a wheel, with a label or without."""
    return Version(name.split("-")[1])


def main(index: str, project: str, host: str | None = None) -> int:
    """Read the page of a project, and print the URL of its wheel that fits."""
    page = urljoin(f"{index}/", f"{project}/")
    accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
    with urlopen(Request(page, headers=accept), timeout=30) as answer:
        urls = {one["filename"]: urljoin(page, one["url"]) for one in json.load(answer)["files"]}

    def fetch(name: str) -> bytes:
        with urlopen(urls[name], timeout=30) as answer:
            return bytes(answer.read())

    chosen = choose(urls, fetch, host)
    print(urls[chosen] if chosen else f"no wheel of {project} fits")
    return 0 if chosen else 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
