"""Find a plugin of PEP 850, call it, and convert its result to plain data (P-25, P-27).

The part of ``plugin_child.py`` that meets the plugin's own code: nothing that it imports or
returns is believed to be small, quick or honest, though no harm is feared here any more.

Runs on CPython 3.9 and later.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BYTES = 8 << 20
"""Of an answer (P-34)."""
MOST_FEATURES = 64
MOST_VALUES = 100_000
FLAGS = ("all_properties_compatible", "is_aot_plugin", "is_build_plugin")
_ITEM = ("name", "values", "multi_value")
_LONGEST_REASON = 2_000


class Failed(Exception):
    """Raised with the reason there is no answer, one clause."""


def ask(endpoint: str, name: str) -> dict[str, Any]:
    """Return the plugin's answer as plain data: ``configs``, ``flags`` and ``notes``.

    :param endpoint: ``module.sub:attr.attr``.
    :raises Failed: there is none; other errors are the plugin's.
    """
    notes: list[str] = []
    plugin = find(endpoint)
    plugin, method = bound(plugin, endpoint, name, notes)
    if name == "get_supported_configs" and _wants_one(method):
        notes.append(f"{name} takes an argument, as in an older draft of PEP 850")
        configs = method(None)
    else:
        configs = method()
    read = _Reading()
    flags = {}
    for flag in FLAGS:
        value = getattr(plugin, flag, None)
        if value is not None:
            flags[flag] = read.plain(value)
    return {"configs": read.configs(configs, name), "flags": flags, "notes": notes}


def find(endpoint: str) -> object:
    """Import the module and follow the attributes (P-25).

    :param endpoint: ``module.sub:attr.attr``, the attributes left out for the module itself.
    """
    from importlib import import_module

    module, _, attributes = endpoint.partition(":")
    try:
        value: object = import_module(module.strip())
    except ModuleNotFoundError as error:
        raise Failed(f"it cannot be imported: {_text_of(error)}") from None
    except ImportError as error:
        raise Failed(f"it cannot be imported: {described(error)}") from None
    for name in filter(None, (part.strip() for part in attributes.split("."))):
        try:
            value = getattr(value, name)
        except AttributeError:
            raise Failed(f"{endpoint} does not exist: there is no {name}") from None
    return value


def bound(
    plugin: object, endpoint: str, name: str, notes: list[str]
) -> tuple[object, Callable[..., object]]:
    """Return the plugin and its method, made an instance of if the method needs one (P-25)."""
    if isinstance(plugin, type):
        import types

        attribute = next((vars(base)[name] for base in plugin.__mro__ if name in vars(base)), None)
        if isinstance(attribute, types.FunctionType):
            notes.append(f"{endpoint} is a class whose {name} needs an instance")
            plugin = plugin()
    method = getattr(plugin, name, None)
    if not callable(method):
        raise Failed(f"{endpoint} has no {name}()")
    return plugin, method


def _wants_one(method: Callable[..., object]) -> bool:
    """Return whether a function has exactly one parameter that must be given."""
    import inspect

    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return False
    required = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return len(required) == 1


class _Reading:
    """A reader of a plugin's answer, which may be of any size."""

    def __init__(self) -> None:
        self._room = MOST_BYTES

    def configs(self, configs: object, method: str) -> list[dict[str, Any]]:
        """Return the features with the attributes that mean something (P-27, P-31)."""
        if not isinstance(configs, (list, tuple)):
            raise Failed(f"{method}() returned {_kind(configs)} and no list")
        # One more than is allowed is enough to see that it is too much (P-34).
        items = list(islice(iter(configs), MOST_FEATURES + 1))
        absent = object()
        read = []
        left = MOST_VALUES + 1
        for item in items:
            seen = {}
            for name in _ITEM:
                value = getattr(item, name, absent)
                if value is absent:
                    continue
                if name == "values" and isinstance(value, (list, tuple)):
                    values = [self.plain(item) for item in islice(iter(value), left)]
                    left -= len(values)
                    seen[name] = values
                else:
                    seen[name] = self.plain(value)
            read.append(seen)
        return read

    def plain(self, value: object) -> Any:
        """Return a value as JSON has it; of anything else only the kind: ``{"kind": …}``."""
        self._room -= 16
        if isinstance(value, str):
            self._room -= len(value)
        if self._room < 0:
            raise Failed(f"its answer is larger than {MOST_BYTES >> 20} MiB")
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            # Not what a subclass makes of itself.
            return str.encode(value, "utf-8", "surrogatepass").decode("utf-8", "surrogatepass")
        if type(value) is float or (type(value) is int and abs(value) < 1 << 53):
            return value if value == value and abs(value) < 1e300 else _with_kind(value)  # noqa: PLR0124
        return _with_kind(value)


def _with_kind(value: object) -> dict[str, str]:
    return {"kind": _kind(value)}


def _kind(value: object) -> str:
    """Return the name of a value's type, without code of the plugin."""
    if value is None:
        return "None"
    name = str(type.__dict__["__name__"].__get__(type(value)))
    article = "an" if name[:1].lower() in "aeio" else "a"
    return f"{article} {name[:100]}"


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST_REASON]
    except BaseException:  # noqa: BLE001 - even that is the plugin's code
        return ""


def described(error: BaseException) -> str:
    """Return an exception as a clause of a sentence."""
    name = str(type.__dict__["__name__"].__get__(type(error)))[:100]
    if isinstance(error, SystemExit):
        return f"it called sys.exit({_text_of(error)})"
    if isinstance(error, MemoryError):
        return "it used more memory than it may"
    text = _text_of(error)
    return f"it raised {name}: {text}" if text else f"it raised {name}"
