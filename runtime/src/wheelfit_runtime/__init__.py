"""Choose among installed implementations, and load libraries, at run time.

It runs inside other people's programs, so it uses the standard library only, and importing it
loads nothing else: every name below is loaded from its module when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` for it takes longer than importing this module
if TYPE_CHECKING:
    from wheelfit_runtime.errors import NoImplementation
    from wheelfit_runtime.libraries.initializing import initialize, initialize_cuda
    from wheelfit_runtime.loader.exporting import load
    from wheelfit_runtime.loader.loading import explain
    from wheelfit_runtime.loader.value_choice import select

__version__ = "0.1.0"

__all__ = [
    "NoImplementation",
    "VariantWarning",
    "explain",
    "initialize",
    "initialize_cuda",
    "load",
    "select",
]

_MODULES = {
    "NoImplementation": "wheelfit_runtime.errors",
    "explain": "wheelfit_runtime.loader.loading",
    "initialize": "wheelfit_runtime.libraries.initializing",
    "initialize_cuda": "wheelfit_runtime.libraries.initializing",
    "load": "wheelfit_runtime.loader.exporting",
    "select": "wheelfit_runtime.loader.value_choice",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Not `importlib.import_module`, since importing `importlib` takes a millisecond.
    value = getattr(__import__(module, fromlist=(name,)), name)
    globals()[name] = value
    return value


class VariantWarning(UserWarning):
    """The category of warnings about implementations installed for other machines."""
