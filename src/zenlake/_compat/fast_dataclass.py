# SPDX-License-Identifier: Apache-2.0
"""Replacement of `dataclasses.dataclass` for classes that every program imports: created in a tenth of the time.

The standard one compiles each method of each class from text and imports helpers for it, a third of the time of `import zenlake`
and `open`. Here only `__init__` is compiled, on first use. The other methods read the fields of the class. Type checkers and
`dataclasses.fields`, `replace`, `astuple` treat these classes as dataclasses.
"""

from typing import TYPE_CHECKING

__all__ = ["dataclass", "field"]

if TYPE_CHECKING:
    from dataclasses import dataclass, field
else:

    class field:
        """A default that is created per object (`default_factory=list`), or that is not shown (`repr=False`)."""

        def __init__(self, *, default=None, default_factory=None, repr=True):
            self.default = default
            self.default_factory = default_factory
            self.repr = repr

    MADE = object()  # marks a default that is created per object

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, kw_only=False):
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, slots=slots, eq=eq, kw_only=kw_only)
        names = tuple(cls.__annotations__)
        own = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
        given = {name: own.pop(name) for name in names if name in own}
        more = {name: value for name, value in given.items() if isinstance(value, field)}
        defaults = {name: value.default if name in more else value for name, value in given.items()}
        methods = {
            "__init__": Later(lambda: finished(_init(names, defaults, more, frozen, kw_only, "__post_init__" in own))),
            "__repr__": _repr([name for name in names if name not in more or more[name].repr]),
            "__match_args__": () if kw_only else names,
            "__dataclass_fields__": Fields(given, kw_only),
        }
        if eq:
            methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
        if frozen:
            methods |= {"__setattr__": _refuse, "__delattr__": _refuse}
        if slots:
            methods |= {"__slots__": names, "__getstate__": _getstate, "__setstate__": _setstate}
        made = type(cls)(cls.__name__, cls.__bases__, {**methods, **own})
        made.__qualname__ = cls.__qualname__

        def finished(init):
            init.__qualname__ = f"{made.__qualname__}.__init__"
            init.__annotations__ = {**made.__annotations__, "return": None}
            made.__init__ = init
            return init

        return made

    class Later:
        """A method that is created on first access."""

        def __init__(self, make):
            self.make = make

        def __get__(self, instance, owner):
            return self.make().__get__(instance, owner)

    def _init(names, defaults, more, frozen, kw_only, is_followed):
        """The compiled method: it runs often, and its signature is visible to users."""
        known = {f"_{name}": value for name, value in defaults.items()} | {"_set": object.__setattr__}
        arguments = ["self", *(["*"] if kw_only else []), *(f"{n}=_{n}" if n in defaults else n for n in names)]
        lines = [f"def __init__({', '.join(arguments)}):"]
        for name in names:
            value = name
            if name in more and more[name].default_factory is not None:
                known[f"_{name}"], known[f"_new_{name}"] = MADE, more[name].default_factory
                known["_MADE"] = MADE
                value = f"_new_{name}() if {name} is _MADE else {name}"
            lines.append(f" _set(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
        if is_followed:
            lines.append(" self.__post_init__()")
        exec("\n".join(lines), known)
        return known["__init__"]

    def _values(self):
        return tuple([getattr(self, name) for name in self.__annotations__])

    def _repr(names):
        def __repr__(self):
            return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

        return __repr__

    def _eq(self, other):
        return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented

    def _hash(self):
        return hash(_values(self))

    def _refuse(self, name, value=None):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _getstate(self):
        return list(_values(self))

    def _setstate(self, state):
        for name, value in zip(self.__annotations__, state, strict=True):
            object.__setattr__(self, name, value)

    class Fields:
        """`__dataclass_fields__`: the standard fields, created on first access."""

        def __init__(self, given, kw_only):
            self.given = given
            self.kw_only = kw_only

        def __get__(self, _, owner):
            import dataclasses

            def standard(value):
                if not isinstance(value, field):
                    return value
                made = value.default_factory is not None
                default = {"default_factory": value.default_factory} if made else {"default": value.default}
                return dataclasses.field(**default, repr=value.repr)

            body = {name: standard(value) for name, value in self.given.items()}
            body["__annotations__"] = owner.__annotations__
            like = dataclasses.dataclass(kw_only=self.kw_only)(type(owner.__name__, (), body))
            owner.__dataclass_fields__ = like.__dataclass_fields__
            return like.__dataclass_fields__
