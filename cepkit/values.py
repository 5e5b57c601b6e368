"""Frozen dataclasses. They load in a quarter of the time, since they share all methods but ``__init__``."""

# `dataclasses` compiles a text for each method of each class: half of a millisecond for each class, and a
# first query loads 180 of them.

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from dataclasses import (
    MISSING,
    Field,
    FrozenInstanceError,
    asdict,
    dataclass,
    field,
    fields,
    is_dataclass,
    replace,
)
from functools import cached_property
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["asdict", "cached_property", "dataclass", "field", "fields", "is_dataclass", "replace"]


class _CachedProperty:
    """A property that is computed once; without the lock of Python 3.11 it takes a quarter of the time."""

    def __init__(self, compute: Callable[[Any], Any]):
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.name, self.compute(instance))  # of threads, the first wins


if not TYPE_CHECKING:
    cached_property = _CachedProperty


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _dataclass(
    given: Any = None, /, *, frozen: bool = False, repr: bool = True, eq: bool = True, **options: Any
) -> Any:
    """Return what ``dataclasses.dataclass`` returns, for the options that this package uses."""
    if not frozen:
        return dataclasses.dataclass(given, repr=repr, eq=eq, **options)

    def freeze(cls: type) -> type:
        cls.__doc__ = cls.__doc__ or cls.__name__  # otherwise the signature is looked up
        extends = any(map(is_dataclass, cls.__mro__[1:]))  # the standard library asks for frozen ones
        cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False, frozen=extends, **options)
        cls.__dataclass_params__.frozen = True
        methods = {"__init__": _initializer(cls), "__setattr__": _refuse, "__delattr__": _refuse}
        if repr:
            methods["__repr__"] = _representation(tuple(item.name for item in fields(cls) if item.repr))
        if eq:
            methods["__eq__"], methods["__hash__"] = _comparison(
                tuple(item.name for item in fields(cls) if item.compare)
            )
        if options.get("slots"):
            methods |= {"__getstate__": _values_of, "__setstate__": _restore}
        for name, method in methods.items():
            if vars(cls).get(name) is None:  # a class with __eq__ has None for __hash__
                setattr(cls, name, method)
        return cls

    return freeze if given is None else freeze(given)


if not TYPE_CHECKING:  # type checkers know the other one
    dataclass = _dataclass


def _initializer(cls: type) -> Callable:
    """Return ``__init__``, compiled from a text with the names of the fields."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
    lines = [
        f"  _set(self, {item.name!r}, {value})" for item in fields(cls) if (value := _value(item, names))
    ]
    if hasattr(cls, "__post_init__"):
        lines.append("  self.__post_init__()")
    listed = [item for item in fields(cls) if item.init]
    parameters = ["self", *(_parameter(item) for item in listed if not item.kw_only)]
    if any(item.kw_only for item in listed):
        parameters += ["*", *(_parameter(item) for item in listed if item.kw_only)]
    body = "\n".join(lines) or "  pass"
    text = (
        f"def create({', '.join(names)}):\n def __init__({', '.join(parameters)}):\n{body}\n return __init__"
    )
    made: dict[str, Any] = {}
    exec(text, vars(sys.modules[cls.__module__]), made)
    initializer = made["create"](**names)
    initializer.__qualname__ = f"{cls.__qualname__}.__init__"
    initializer.__annotations__ = {item.name: item.type for item in listed} | {"return": None}
    return initializer


def _value(item: Field, names: dict[str, Any]) -> str:
    """Return the text of the value that a field gets, and name the default in it."""
    if item.default_factory is not MISSING:
        names[f"_new_{item.name}"] = item.default_factory
        return f"_new_{item.name}()" + f" if {item.name} is _FACTORY else {item.name}" * item.init
    if item.default is not MISSING:
        names[f"_default_{item.name}"] = item.default
    return item.name if item.init else f"_default_{item.name}" * (item.default is not MISSING)


def _parameter(item: Field) -> str:
    if item.default_factory is not MISSING:
        return f"{item.name}=_FACTORY"
    return item.name + f"=_default_{item.name}" * (item.default is not MISSING)


def _representation(names: tuple[str, ...]) -> Callable:
    @recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _comparison(names: tuple[str, ...]) -> tuple[Callable, Callable]:
    """Return ``__eq__`` and ``__hash__`` by the values of some fields."""
    read = attrgetter(*names) if names else tuple
    values = read if len(names) > 1 else lambda value: tuple(read(value) for read in map(attrgetter, names))

    def __eq__(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __eq__, __hash__


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise FrozenInstanceError(f"cannot {'assign to' if _ else 'delete'} field {name!r}")


def _values_of(self: Any) -> list[Any]:
    return [getattr(self, item.name) for item in fields(self)]


def _restore(self: Any, state: Iterator[Any]) -> None:
    for item, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, item.name, value)
