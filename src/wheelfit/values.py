"""Classes of fields whose methods are written when they are first called.

`dataclasses` writes and compiles every method of a class at once: half a millisecond a class,
a third of the time in which a command could be done, for methods of which most are never called.
Here a class gets its ``__eq__`` and its ``__hash__`` with the first call of each, its ``__init__``
where it is called often, and that module with what it needs itself (8 ms) is not imported.

For a type checker these *are* the names of `dataclasses`; what they make can be given to the
functions of that module, and behaves alike. Of its arguments only those exist that are used here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass", "field", "fields", "replace"]


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from dataclasses import dataclass, field, fields, replace
else:

    class _Missing:
        """Stand for a default that is not there."""

        def __repr__(self) -> str:
            return "MISSING"

    MISSING = _Missing()
    _SLOW_CALLS = 25
    """So many calls of an ``__init__`` take as long as compiling it."""

    class _Field:
        """Hold what is said of one field."""

        __slots__ = ("annotation", "compare", "default", "factory", "hash", "init", "repr")

        def __init__(self, default, factory, init, repr, hash, compare) -> None:
            self.default = default
            self.factory = factory
            self.init = init
            self.repr = repr
            self.hash = hash
            self.compare = compare
            self.annotation = None

        @property
        def is_hashed(self) -> bool:
            """Whether it counts for the hash: if nobody says so, what is compared does."""
            return self.compare if self.hash is None else self.hash

    def field(
        *,
        default=MISSING,
        default_factory=MISSING,
        init=True,
        repr=True,
        hash=None,
        compare=True,
    ):
        """Describe one field, as `dataclasses.field`."""
        return _Field(default, default_factory, init, repr, hash, compare)

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, order=False):
        """Make a class of its annotated names, as `dataclasses.dataclass`."""

        def make(cls):
            return _make(cls, frozen, slots, eq, order)

        return make if cls is None else make(cls)

    def fields(thing):
        """Return the fields of a class or value, as `dataclasses.fields`."""
        import dataclasses

        return dataclasses.fields(thing)

    def replace(value, /, **changes):
        """Return a value with some fields changed, as `dataclasses.replace`."""
        cls = value.__class__
        for name, one in cls.__value_fields__.items():
            if not one.init:
                if name in changes:
                    import sys

                    # As dataclasses of the same Python do.
                    error = TypeError if sys.version_info >= (3, 13) else ValueError
                    raise error(
                        f"field {name} is declared with init=False, "
                        "it cannot be specified with replace()"
                    )
            elif name not in changes:
                changes[name] = getattr(value, name)
        return cls(**changes)

    def _make(cls, frozen, slots, eq, order):
        own = vars(cls)
        found = {}
        for base in reversed(cls.__mro__[1:]):
            found |= vars(base).get("__value_fields__", {})
        for name, annotation in cls.__annotations__.items():
            if not str(annotation).startswith(("ClassVar", "typing.ClassVar")):
                default = own.get(name, MISSING)
                one = default if isinstance(default, _Field) else field(default=default)
                one.annotation = annotation
                found[name] = one
                if isinstance(default, _Field) and not slots:
                    if one.default is MISSING:
                        delattr(cls, name)
                    else:
                        setattr(cls, name, one.default)
        if slots:
            cls = _with_slots(cls, found)
            own = vars(cls)
        cls.__value_fields__ = found
        cls.__dataclass_fields__ = _Described(cls, "__dataclass_fields__", frozen, eq, order)
        cls.__dataclass_params__ = _Described(cls, "__dataclass_params__", frozen, eq, order)
        cls.__match_args__ = tuple(name for name, one in found.items() if one.init)
        if "__init__" not in own:
            cls.__init__ = _slow_initializer(cls, found, frozen)
        if "__repr__" not in own:
            cls.__repr__ = _representation
        if eq:
            compared = [name for name, one in found.items() if one.compare]
            has_own_hash = own.get("__hash__") is not None
            if "__eq__" not in own:
                cls.__eq__ = _at_first_call(cls, "__eq__", lambda: _equality(cls, compared))
            if not has_own_hash:
                hashed = [name for name, one in found.items() if one.is_hashed]
                cls.__hash__ = (
                    _at_first_call(cls, "__hash__", lambda: _hasher(cls, hashed))
                    if frozen
                    else None
                )
            if order:
                for sign, name in (("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge")):
                    setattr(cls, f"__{name}__", _comparison(cls, f"__{name}__", sign, compared))
        if frozen:
            _freeze(cls, found)
        return cls

    def _with_slots(cls, found):
        """Return the class again, with a slot for every field."""
        namespace = dict(vars(cls))
        for name in (*found, "__dict__", "__weakref__"):
            namespace.pop(name, None)
        inherited = {name for base in cls.__mro__ for name in vars(base).get("__slots__", ())}
        namespace["__slots__"] = tuple(name for name in found if name not in inherited)
        again = type(cls)(cls.__name__, cls.__bases__, namespace)
        again.__qualname__ = cls.__qualname__
        return again

    def _freeze(cls, found):
        """Let nothing be assigned, copies and pickles aside."""

        def refuse(self, name, verb) -> None:
            if type(self) is cls or name in found:
                from dataclasses import FrozenInstanceError

                raise FrozenInstanceError(f"cannot {verb} field {name!r}")

        def set_attribute(self, name, value) -> None:
            refuse(self, name, "assign to")
            super(cls, self).__setattr__(name, value)

        def delete_attribute(self, name) -> None:
            refuse(self, name, "delete")
            super(cls, self).__delattr__(name)

        cls.__setattr__ = set_attribute
        cls.__delattr__ = delete_attribute
        if "__slots__" in vars(cls):
            cls.__getstate__ = _state
            cls.__setstate__ = _restore

    def _state(self):
        return [getattr(self, name) for name in self.__value_fields__]

    def _restore(self, state) -> None:
        for name, value in zip(self.__value_fields__, state, strict=True):
            object.__setattr__(self, name, value)

    def _representation(self) -> str:
        shown = (name for name, one in self.__value_fields__.items() if one.repr)
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({inside})"

    # --- methods that are written --------------------------------------------------------------

    def _at_first_call(cls, name, write):
        """Return a method that puts another in its place when it is called."""

        def method(self, *args, **kwargs):
            written = write()
            setattr(cls, name, written)
            return written(self, *args, **kwargs)

        method.__name__ = name
        method.__qualname__ = f"{cls.__qualname__}.{name}"
        return method

    def _slow_initializer(cls, found, frozen):
        """Return an ``__init__`` that need not be compiled; where it is called often, it is."""
        names = [name for name, one in found.items() if one.init]
        compiled = _at_first_call(cls, "__init__", lambda: _initializer(cls, found, frozen))
        assign = object.__setattr__ if frozen else setattr
        left = _SLOW_CALLS

        def method(self, *args, **kwargs) -> None:
            nonlocal left
            left -= 1
            given = dict(zip(names, args, strict=False))
            known = given.keys().isdisjoint(kwargs) and kwargs.keys() <= found.keys()
            given.update(kwargs)
            if left < 0 or len(args) > len(names) or not known:
                compiled(self, *args, **kwargs)
                return
            values = []
            for name, one in found.items():
                if name in given and one.init:
                    values.append((name, given.pop(name)))
                elif one.factory is not MISSING:
                    values.append((name, one.factory()))
                elif one.default is not MISSING:
                    values.append((name, one.default))
                elif one.init:
                    break
            else:
                if not given:
                    for name, value in values:
                        assign(self, name, value)
                    if hasattr(cls, "__post_init__"):
                        self.__post_init__()
                    return
            compiled(self, *args, **kwargs)  # says what is wrong with the arguments

        method.__name__ = "__init__"
        method.__qualname__ = f"{cls.__qualname__}.__init__"
        return method

    def _written(cls, name, parameters, lines, names):
        """Compile a method.

        :param parameters: after ``self``.
        :param lines: its body.
        :param names: what the body may use.
        """
        body = "".join(f"\n {line}" for line in lines) or "\n pass"
        exec(f"def {name}({', '.join(('self', *parameters))}):{body}", names)  # noqa: S102 - ours
        method = names[name]
        method.__qualname__ = f"{cls.__qualname__}.{name}"
        method.__module__ = cls.__module__
        return method

    def _initializer(cls, found, frozen):
        names = {"_MISSING": MISSING, "_set": object.__setattr__}
        parameters, lines = [], []
        for name, one in found.items():
            value = name
            if one.factory is not MISSING:
                names[f"_make_{name}"] = one.factory
                value = f"_make_{name}()"
                if one.init:
                    value = f"{value} if {name} is _MISSING else {name}"
                    parameters.append(f"{name}=_MISSING")
            elif one.default is not MISSING:
                names[f"_default_{name}"] = one.default
                if one.init:
                    parameters.append(f"{name}=_default_{name}")
                else:
                    value = f"_default_{name}"
            elif one.init:
                parameters.append(name)
            else:
                continue
            lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            lines.append("self.__post_init__()")
        return _written(cls, "__init__", parameters, lines, names)

    def _tuple(of, names) -> str:
        return f"({''.join(f'{of}.{name}, ' for name in names)})"

    def _equality(cls, names):
        same = f"return {_tuple('self', names)} == {_tuple('other', names)}"
        lines = ("if other.__class__ is self.__class__:", f" {same}", "return NotImplemented")
        return _written(cls, "__eq__", ("other",), lines, {})

    def _hasher(cls, names):
        return _written(cls, "__hash__", (), (f"return hash({_tuple('self', names)})",), {})

    def _comparison(cls, method, sign, names):
        less = f"return {_tuple('self', names)} {sign} {_tuple('other', names)}"
        lines = ("if other.__class__ is self.__class__:", f" {less}", "return NotImplemented")
        return _at_first_call(cls, method, lambda: _written(cls, method, ("other",), lines, {}))

    class _Described:
        """Give what `dataclasses` looks for in a class, when it looks."""

        def __init__(self, cls, name, frozen, eq, order) -> None:
            self._cls = cls
            self._name = name
            self._options = {"frozen": frozen, "eq": eq, "order": order}

        def __get__(self, value, owner=None):
            import dataclasses

            def described(one):
                options = {
                    key: given
                    for key, given in (("default", one.default), ("default_factory", one.factory))
                    if given is not MISSING
                }
                return dataclasses.field(
                    init=one.init, repr=one.repr, hash=one.hash, compare=one.compare, **options
                )

            alike = dataclasses.make_dataclass(
                self._cls.__name__,
                [
                    (name, one.annotation, described(one))
                    for name, one in self._cls.__value_fields__.items()
                ],
                **self._options,
            )
            for name in ("__dataclass_fields__", "__dataclass_params__"):
                setattr(self._cls, name, getattr(alike, name))
            return getattr(alike, self._name)
