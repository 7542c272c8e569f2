"""Findings on how a result uses the accelerators of a machine, with remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.property_support import Support
    from wheelfit.resolution.candidates import Candidates, ChoicePolicy


class Remedy(NamedTuple):
    """An option or requirement with which a build for the machine is chosen."""

    text: str
    """The text to type: ``--bridge pytorch``, ``jax[cuda13]``."""
    build: str = ""
    """The build that is chosen; empty for the same build with an extra."""
    size: int | None = None
    """Additional bytes to download; None if unknown."""
    is_for_any_machine: bool = False
    """Whether the build is for any machine."""


class AcceleratorRemark(NamedTuple):
    """A problem of a result with one kind of accelerator."""

    kind: str
    """``unusable-libraries``, or ``idle``: an accelerator is installed that nothing uses."""
    namespace: str
    packages: tuple[str, ...]
    """The packages that need the libraries, or could use the accelerator."""
    libraries: tuple[str, ...]
    """Packages of libraries that are installed needlessly."""
    size: int | None
    """Bytes of these libraries, or of what the remedies would install; None: unknown."""
    remedies: tuple[str, ...]
    """The remedies, as typed on the command line."""
    message: str

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        return self._asdict()


class AcceleratorContext(NamedTuple):
    """The facts about the machine, and functions to query the candidates."""

    support_of: Callable[[VariantDocument, Iterable[str]], Support]
    """Returns the support of the machine for some namespaces."""
    policy: ChoicePolicy
    """The user's settings; explicit choices are not reported."""
    bridge: Callable[[NormalizedName], BridgeFamily | None]
    """Returns the family in use for a project."""
    environment: Mapping[str, str]
    """The values of the marker variables."""
    installed: Collection[NormalizedName] = ()
    candidates: Candidates | None = None
    """The candidates; None for a lock without sources."""
    lock: str = ""
    """The command that remedies for a lock begin with, such as ``wheelfit lock``; empty: none."""
