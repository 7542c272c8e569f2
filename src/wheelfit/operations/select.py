"""Selection: the best of some wheels for a machine, and a reason for each of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.operations.requests import EnvironmentOptions, MachineOptions, VariantOptions

if TYPE_CHECKING:
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.selection import Selection
    from wheelfit.operations.context import Context


@dataclass(frozen=True, kw_only=True)
class SelectRequest(EnvironmentOptions, MachineOptions, VariantOptions):
    """The wheels of one release, the machine, and wishes about variants."""

    filenames: tuple[str, ...]
    """Names of the wheels, in any order."""
    document: VariantDocument | None = None
    """The variant metadata of the release; None: there is none."""


def select(request: SelectRequest, context: Context) -> Selection:
    """Judge the wheels of a release and put them in order (F-90).

    Nothing is fetched, and what is installed has no part in it.

    :param request: the wheels, and the machine.
    :param context: the surroundings.
    :raises InvalidFilename: a name is not that of a wheel.
    :raises UnknownHost: there is no machine of that name.
    """
    from wheelfit.core import selection
    from wheelfit.core.abi_dependency import KnownVersions
    from wheelfit.core.filename import parse_wheel_filename
    from wheelfit.core.support import namespaces_used
    from wheelfit.operations.environments import open_environment_of
    from wheelfit.operations.machine import choose_machine
    from wheelfit.operations.preferences import choice_policy

    names = [parse_wheel_filename(name) for name in request.filenames]
    environment = open_environment_of(request, context.environ, may_be_new=True)
    machine = choose_machine(request, environment.target(), context)
    document = request.document
    support = None
    if document is not None:
        used = namespaces_used(document.variants.values())
        support = machine.support(document, used, KnownVersions(is_open=True))
    return selection.select(
        names,
        document=document,
        support=support,
        tags=machine.target.tags,
        preferences=choice_policy(request, machine.policy).preferences,
    )
