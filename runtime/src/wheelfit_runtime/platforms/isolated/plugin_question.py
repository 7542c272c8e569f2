"""Find a plugin of PEP 850, call it, and convert its result to plain data (P-25, P-27).

The part of ``plugin_child.py`` that runs the plugin's own code, whose result may be of any size and
type. Runs on CPython 3.9 and later.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_ANSWER_BYTES = 8 << 20
"""The largest answer (P-34)."""
MAX_FEATURES = 64
MAX_VALUES = 100_000
FLAGS = ("all_properties_compatible", "is_aot_plugin", "is_build_plugin")
_ITEM = ("name", "values", "multi_value")
_MAX_REASON_LENGTH = 2_000


class Failed(Exception):
    """Raised if there is no answer; the message is the reason, one clause."""


def ask(endpoint: str, name: str) -> dict[str, Any]:
    """Return the plugin's answer as plain data: ``configs``, ``flags`` and ``notes``.

    :param endpoint: ``module.sub:attr.attr``.
    :param name: the method to call.
    :raises Failed: there is none; other errors are the plugin's.
    """
    notes: list[str] = []
    plugin = find(endpoint)
    plugin, method = bound(plugin, endpoint, name, notes)
    if name == "get_supported_configs" and _needs_one_argument(method):
        notes.append(f"{name} takes an argument, as in an older draft of PEP 850")
        configs = method(None)
    else:
        configs = method()
    reader = _AnswerReader()
    flags = {}
    for flag in FLAGS:
        value = getattr(plugin, flag, None)
        if value is not None:
            flags[flag] = reader.plain(value)
    return {"configs": reader.configs(configs, name), "flags": flags, "notes": notes}


def find(endpoint: str) -> object:
    """Return the object that an endpoint names (P-25).

    :param endpoint: ``module.sub:attr.attr``, or ``module.sub`` for the module itself.
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
    """Return the plugin, instantiated if its method needs an instance, and the method (P-25)."""
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


def _needs_one_argument(method: Callable[..., object]) -> bool:
    """Return whether a function has exactly one required positional parameter."""
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


class _AnswerReader:
    """A reader of a plugin's answer, which may be of any size."""

    def __init__(self) -> None:
        self._bytes_left = MAX_ANSWER_BYTES

    def configs(self, configs: object, method: str) -> list[dict[str, Any]]:
        """Return the features with their attributes as plain data (P-27, P-31)."""
        if not isinstance(configs, (list, tuple)):
            raise Failed(f"{method}() returned {_kind(configs)} and no list")
        # One more than allowed, so that the parent process reports the excess (P-34).
        items = list(islice(iter(configs), MAX_FEATURES + 1))
        absent = object()
        features = []
        values_left = MAX_VALUES + 1
        for item in items:
            attributes = {}
            for name in _ITEM:
                value = getattr(item, name, absent)
                if value is absent:
                    continue
                if name == "values" and isinstance(value, (list, tuple)):
                    values = [self.plain(item) for item in islice(iter(value), values_left)]
                    values_left -= len(values)
                    attributes[name] = values
                else:
                    attributes[name] = self.plain(value)
            features.append(attributes)
        return features

    def plain(self, value: object) -> Any:
        """Return a value for JSON; for other types only their name: ``{"kind": …}``."""
        self._bytes_left -= 16  # of a number, or of quotes, separators and the name of a type
        if isinstance(value, str):
            self._bytes_left -= len(value)
        if self._bytes_left < 0:
            raise Failed(f"its answer is larger than {MAX_ANSWER_BYTES >> 20} MiB")
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            # A subclass of str may override its methods.
            return str.encode(value, "utf-8", "surrogatepass").decode("utf-8", "surrogatepass")
        # NaN and infinity are no JSON, and readers of JSON round larger integers.
        if type(value) is float and abs(value) < 1e300:
            return value
        if type(value) is int and abs(value) < 1 << 53:
            return value
        return {"kind": _kind(value)}


def _kind(value: object) -> str:
    """Return the name of a value's type, without calling code of the plugin."""
    if value is None:
        return "None"
    name = str(type.__dict__["__name__"].__get__(type(value)))
    article = "an" if name[:1].lower() in "aeio" else "a"
    return f"{article} {name[:100]}"


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:_MAX_REASON_LENGTH]
    except BaseException:  # noqa: BLE001 - the plugin may override __str__
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
