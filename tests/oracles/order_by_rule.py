"""The order of labels by the letter of F-66, in plain data and without any table.

It shares no code with wheelfit, is as slow as it likes, and follows the sentences of the rule
one by one, so that whoever doubts an order can read why it is so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cmp_to_key

Values = Mapping[str, Mapping[str, Sequence[str]]]
"""By namespace and feature; of what is supported the order counts, of a variant it does not."""


def first_then(first: Sequence[str], rest: Sequence[str]) -> list[str]:
    """Put a prefix before a list (F-49, F-69): what is not in the list is left out."""
    return [one for one in first if one in rest] + [one for one in rest if one not in first]


def is_compatible(variant: Values, supported: Values) -> bool:
    """Say whether each feature has at least one supported value (F-28)."""
    return all(
        any(value in supported.get(namespace, {}).get(feature, ()) for value in values)
        for namespace, features in variant.items()
        for feature, values in features.items()
    )


def keys(
    variant: Values, namespaces: Sequence[str], supported: Values
) -> list[tuple[int, int, int]]:
    """Return the key of each feature, ascending (F-66)."""
    found = []
    for namespace, features in variant.items():
        for feature, values in features.items():
            listed = list(supported[namespace][feature])
            best = next(place for place, value in enumerate(listed) if value in values)
            found.append(
                (namespaces.index(namespace), list(supported[namespace]).index(feature), best)
            )
    return sorted(found)


def order(
    variants: Mapping[str, Values], namespaces: Sequence[str], supported: Values
) -> list[str]:
    """Return the labels that may be chosen, best first.

    :param variants: the properties of each label.
    :param namespaces: most important first.
    :param supported: what the target supports, most preferred first.
    """

    def compare(one: str, other: str) -> int:
        left = keys(variants[one], namespaces, supported)
        right = keys(variants[other], namespaces, supported)
        for ours, theirs in zip(left, right, strict=False):
            if ours != theirs:
                return -1 if ours < theirs else 1
        if len(left) != len(right):
            return -1 if len(left) > len(right) else 1  # one key more is better than none
        return -1 if one < other else 1

    compatible = [label for label, one in variants.items() if is_compatible(one, supported)]
    return sorted(compatible, key=cmp_to_key(compare))
