"""The described machines in the overview of a release: host files of the user, and presets."""

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
    cache: dict[str, OverviewHost] | None = None,
) -> Iterator[OverviewHost]:
    """Yield the machines whose choices an overview includes: the user's own, then presets.

    :param document: the variant metadata of the release, which selects the presets; None if there
        is none.
    :param current: the current target, for values that descriptions leave out.
    :param reporter: warns of host files of the user that cannot be read.
    :param rocm_same_major: whether older minor versions of a preset's ROCm count as installed
        (P-123).
    :param cache: machines that were opened for earlier documents, by name; new ones are added.
    """
    cache = {} if cache is None else cache
    own_names = own_hosts(environ)
    presets = [name for name in presets_for(document) if name not in own_names]
    for name in (*own_names, *presets):
        if name in cache:
            yield cache[name]
            continue
        try:
            host = open_host(name, environ, rocm_same_major=rocm_same_major)
        except UserError as error:
            if name in own_names:  # a preset whose parts contradict each other is skipped
                reporter.warn(in_one_line(f"{name} is left out: {error.message}"))
            continue
        cache[name] = OverviewHost(
            name,
            host.description,
            host.file.target(current, name),
            HostDetector(host.file, name, host.kind),
            any_python=host.file.interpreter is None,
        )
        yield cache[name]
