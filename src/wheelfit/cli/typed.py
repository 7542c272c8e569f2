"""What people type, as values: the types of arguments, and the words of commands with actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "check_action",
    "connections",
    "count",
    "device_policy",
    "duration",
    "given",
    "host",
    "limit",
    "port_number",
    "seconds",
    "size",
]


def __dir__() -> list[str]:
    return __all__


def port_number(text: str) -> int:
    """Read the number of a port, as an argument; 0 means any that is free.

    :param text: what was typed.
    """
    from argparse import ArgumentTypeError

    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) < 1 << 16):
        raise ArgumentTypeError(f"{text[:20]!r} is no port")
    return int(text)


def host(text: str) -> str:
    """Read the name of a host, as an argument.

    :param text: what was typed.
    """
    from argparse import ArgumentTypeError

    from wheelfit.server.origins import host_name

    try:
        return host_name(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def check_action(action: str, actions: Sequence[str]) -> None:
    """Check the first word of a command that can do several things.

    :param action: the word.
    :param actions: those that there are.
    :raises UsageError: it is none of them.
    """
    if action not in actions:
        from difflib import get_close_matches

        from wheelfit.errors import UsageError

        close = get_close_matches(action, actions, n=1)
        raise UsageError(
            f"there is no action {action!r}",
            hint=f"did you mean {close[0]!r}?" if close else f"actions: {', '.join(actions)}",
        )


def given(text: str) -> str:
    """Refuse an empty value: it is a variable of a script that was never set.

    :param text: what was typed.
    """
    from argparse import ArgumentTypeError

    if not text:
        raise ArgumentTypeError("the value is empty")
    return text


def connections(text: str) -> int:
    """Read how many connections to one server are used, as an argument.

    :param text: what was typed.
    """
    from argparse import ArgumentTypeError

    from wheelfit.sources.settings import parse_connections

    try:
        return parse_connections(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def device_policy(text: str) -> str:
    """Read which of several GPUs count, as an argument.

    :param text: what was typed.
    """
    return "lowest" if text == "min" else text


def seconds(text: str) -> float:
    """Read a number of seconds, as an argument.

    :param text: what was typed.
    """
    from argparse import ArgumentTypeError

    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise ArgumentTypeError(f"{text!r} is not a number of seconds")
    return found


def duration(text: str) -> float:
    """Read a number of seconds, maybe none, as an argument.

    :param text: what was typed.
    """
    return 0.0 if text.strip() == "0" else seconds(text)


def size(text: str) -> int:
    """Read a number of bytes, as an argument.

    :param text: what was typed.
    """
    from argparse import ArgumentTypeError

    from wheelfit.core.sizes import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def limit(text: str) -> tuple[str, int]:
    """Read a bound and its value, as an argument.

    :param text: what was typed.
    """
    from argparse import ArgumentTypeError

    from wheelfit.cli.settings import LIMITS

    name, _, number = text.partition("=")
    if name not in LIMITS:
        raise ArgumentTypeError(f"{name!r} is none of {', '.join(LIMITS)}")
    smallest, largest = LIMITS[name]
    is_number = number.isascii() and number.isdecimal() and len(number) < 20
    if not is_number or not smallest <= int(number) <= largest:
        raise ArgumentTypeError(f"{name} must be a number from {smallest} to {largest}")
    return name, int(number)


def count(text: str) -> int:
    """Read a number, as an argument.

    :param text: what was typed.
    """
    from argparse import ArgumentTypeError

    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ArgumentTypeError(f"{text[:40]!r} is not a number")
    return int(text)
