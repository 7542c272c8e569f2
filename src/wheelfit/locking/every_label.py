"""Candidates for a platform of which nobody knows the machine: every label counts (F-120)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit.core import abi_dependency
from wheelfit.core.abi_dependency import abi_namespaces
from wheelfit.core.providers import BrokenProvider
from wheelfit.core.support import Support
from wheelfit.resolution.candidates import Candidates
from wheelfit_runtime.platforms.features import Detection, FeatureConfig, Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit.core.abi_dependency import KnownVersions
    from wheelfit.core.document import VariantDocument
    from wheelfit.resolution.release_choice import ReleaseChoice


class EveryLabel(Candidates):
    """Answer which wheels fit some machine of a platform.

    Nobody is asked what is supported. What the labels of a release name is, so the best of all
    labels comes first; only builds for other packages are held against their versions (P-51).
    """

    is_for_one_machine = False

    def support_of(
        self,
        document: VariantDocument,
        namespaces: Iterable[str],
        known: KnownVersions | None = None,
    ) -> Support:
        """Return that everything is supported that a document names.

        :param document: whose providers and labels count.
        :param namespaces: those of interest.
        :param known: versions that builds may be made for; default: those of the
            context.
        """
        known = self.known if known is None else known
        abi = abi_namespaces(document.providers)
        order = {namespace: index for index, namespace in enumerate(document.priorities)}
        detections = {}
        for namespace in sorted(set(namespaces), key=lambda one: (order.get(one, len(order)), one)):
            if namespace in abi and self.policy.providers.abi_dependency:
                detections[namespace] = abi_dependency.detect(namespace, document, known)
            elif namespace not in abi and _is_answerable(document, namespace):
                detections[namespace] = _everything(document, namespace)
            else:
                detections[namespace] = Detection(namespace)
        return Support(detections, abi=abi, known=known)

    def cautions(self, choice: ReleaseChoice) -> Iterable[str]:  # noqa: ARG002 - of any choice
        """Return nothing: there is no machine whose hardware could go unused."""
        return ()


def _is_answerable(document: VariantDocument, namespace: str) -> bool:
    """Tell whether anybody could say what is supported of a namespace (F-130).

    :param document: whose providers count.
    :param namespace: of one of its labels.
    """
    provider = document.providers.get(namespace)
    return document.is_bare or not (provider is None or isinstance(provider, BrokenProvider))


def _everything(document: VariantDocument, namespace: str) -> Detection:
    """Return all values that a document names, the higher ones first: most are versions."""
    used: dict[str, set[str]] = {}
    for properties in document.variants.values():
        for feature, values in properties.features():
            if feature.namespace == namespace:
                used.setdefault(feature.name, set()).update(values)
    features = tuple(
        FeatureConfig(name, tuple(sorted(used[name], key=_height, reverse=True)), True)
        for name in sorted(used)
    )
    return Detection(namespace, features, Status.SUPPORTED, source="a machine of any kind")


def _height(value: str) -> tuple[tuple[int, str], ...]:
    """Compare numbers in a text as numbers: ``12.10`` is higher than ``12.9``."""
    return tuple(
        (int(part), "") if part.isdecimal() and len(part) < 20 else (-1, part)
        for part in re.split(r"([0-9]+)", value)
        if part
    )
