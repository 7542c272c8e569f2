"""Machines for which the wheels of a release are judged: the user's own, and presets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core.host_file import HostDetector
from wheelfit.operations.hosts import open_host, own_hosts
from wheelfit.operations.text import in_one_line
from wheelfit.resolution.overview import OverviewHost
from wheelfit.resolution.preset_hosts import presets_for
from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.target import Target
    from wheelfit.operations.context import Reporter


def overview_hosts(
    document: VariantDocument | None,
    current: Target,
    environ: Mapping[str, str],
    reporter: Reporter,
    *,
    rocm_same_major: bool = False,
    known: dict[str, OverviewHost] | None = None,
) -> Iterator[OverviewHost]:
    """Yield the machines for which a release is judged: the user's own, then presets.

    The presets are those that differ in properties of the labels, with the versions of CUDA and
    ROCm that the labels name.

    :param document: the metadata of the labels; None: there is none.
    :param current: the current target, for values that descriptions leave out.
    :param reporter: gets a warning for each of the user's own files that cannot be read.
    :param rocm_same_major: of presets with ROCm, whether older minors of its major are supported
        (P-123).
    :param known: machines that were opened for earlier documents, by name.
    """
    known = {} if known is None else known
    own = own_hosts(environ)
    for name in (*own, *(one for one in presets_for(document) if one not in own)):
        if name in known:
            yield known[name]
            continue
        try:
            host = open_host(name, environ, rocm_same_major=rocm_same_major)
        except UserError as error:
            if name in own:  # contradictory presets are skipped
                reporter.warn(in_one_line(f"{name} is not asked: {error.message}"))
            continue
        known[name] = OverviewHost(
            name,
            host.words,
            host.file.target(current, name),
            HostDetector(host.file, name, host.kind),
            any_python=host.file.interpreter is None,
        )
        yield known[name]
