"""Selection among the wheels of a release by its variant metadata."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.core.abi_dependency import KnownVersions
from wheelfit.core.metadata import read_document
from wheelfit.core.strict_json import DEFAULT_LIMITS
from wheelfit.errors import reporting_os_errors
from wheelfit.operations.requests import EnvironmentOptions, MachineOptions, VariantOptions

if TYPE_CHECKING:
    import os

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.selection import Selection
    from wheelfit.operations.context import Context


def read_variants_json(source: str | os.PathLike[str] | bytes) -> VariantDocument:
    """Read the variant metadata of a release, in any layout (F-130).

    Unusable parts are omitted, with a note in `VariantDocument.notes`.

    :param source: the path of a ``NAME-VERSION-variants.json``, or its bytes.
    :raises FileProblem: the file cannot be read.
    :raises InvalidDocument: nothing of it can be used.
    """
    if isinstance(source, bytes):
        return read_document(source, where="variants.json")
    with (
        reporting_os_errors("the variant metadata cannot be read", where=str(source)),
        Path(source).open("rb") as file,
    ):
        data = file.read(DEFAULT_LIMITS.size + 1)
    return read_document(data, where=str(source))


class SelectRequest(EnvironmentOptions, MachineOptions, VariantOptions):
    """The wheels of one release, the machine, and preferences about variants."""

    filenames: tuple[str, ...]
    """Names of the wheels, in any order."""
    document: VariantDocument | None = None
    """The variant metadata of the release; None: there is none."""


def select(request: SelectRequest, context: Context) -> Selection:
    """Select the wheels of a release that fit, in order (F-90).

    Nothing is fetched, and installed distributions are ignored.

    :param request: the wheels, and the machine.
    :param context: the environment variables and the reporter.
    :raises InvalidFilename: a name is not that of a wheel.
    :raises UnknownHost: there is no machine of that name.
    """
    from wheelfit.core import selection
    from wheelfit.core.filename import parse_wheel_filename
    from wheelfit.core.property_support import namespaces_used
    from wheelfit.operations.environments import open_environment_of
    from wheelfit.operations.machine import choose_machine
    from wheelfit.operations.preferences import choice_policy

    names = [parse_wheel_filename(name) for name in request.filenames]
    environment = open_environment_of(request, context.environ, may_be_new=True, may_be_own=True)
    machine = choose_machine(request, environment.target, context)
    document = request.document
    support = None
    if document is not None:
        used = namespaces_used(document.variants.values())
        any_version = KnownVersions(is_open=True)
        support = machine.support(document, used, any_version)
    return selection.select(
        names,
        document=document,
        support=support,
        tags=machine.target.tags,
        preferences=choice_policy(request, machine.policy).preferences,
    )
