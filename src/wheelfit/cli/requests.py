"""Requests of operations, made from the arguments of a command."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from argparse import Namespace

_Request = TypeVar("_Request")


def request_of(kind: type[_Request], arguments: Namespace, **more: Any) -> _Request:
    """Return a request whose fields have the values of the arguments of the same name.

    :param kind: the class of the request, a dataclass.
    :param arguments: parsed and completed with the settings; what they lack has its default.
    :param more: values of further fields.
    """
    given = vars(arguments)
    values = {one.name: _frozen(given[one.name]) for one in fields(kind) if one.name in given}  # type: ignore[arg-type]
    values = {name: value for name, value in values.items() if value is not None}
    return kind(**values | more)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
