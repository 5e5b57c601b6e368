"""Frozen dataclasses of the package do what those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
from dataclasses import FrozenInstanceError, field, replace
from functools import cached_property
from typing import ClassVar

import pytest

from cepkit import values

NAN = float("nan")


def _classes(dataclass):
    @dataclass(frozen=True, slots=True)
    class Plain:
        a: int
        b: tuple = ()

    @dataclass(frozen=True)
    class Many:
        """Words."""

        kind: ClassVar[str] = "many"
        a: int
        b: list = field(default_factory=list)
        c: str = field(default="c", kw_only=True, compare=False)
        d: int = field(default=4, repr=False)
        e: int = field(init=False)
        f: int = field(init=False, default=6)
        g: dict = field(init=False, default_factory=dict, compare=False)

        def __post_init__(self):
            object.__setattr__(self, "e", self.a + 1)

        @cached_property
        def double(self):
            return 2 * self.a

    @dataclass(frozen=True)
    class Child(Plain):
        c: float = 0.5

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Keywords:
        a: int
        b: float = NAN

    @dataclass(frozen=True, eq=False, repr=False)
    class Same:
        a: int = 0

    @dataclass(frozen=True, slots=True)
    class Written:
        a: object = None

        def __repr__(self):
            return "written"

        def __eq__(self, other):
            return self.a is other.a

    @dataclass(frozen=True)
    class Hashed:
        a: int = 0

        def __hash__(self):
            return 7

    @dataclass(frozen=True, slots=True)
    class Empty:
        pass

    @dataclass
    class Open:
        a: int = 0

    return {cls.__name__: cls for cls in (Plain, Many, Child, Keywords, Same, Written, Hashed, Empty, Open)}


OURS, THEIRS = _classes(values.dataclass), _classes(dataclasses.dataclass)
MADE = {
    "Plain": [((1,), {}), ((1, (2,)), {}), ((), {"b": 3, "a": 1}), ((NAN,), {}), ((), {})],
    "Many": [
        ((1,), {}), ((1, [2]), {}), ((1, [2]), {"c": "d"}), ((1, [2], 3), {}), ((1, [], 2, 3), {}),
        ((1,), {"e": 2}),
    ],
    "Child": [((1, (), 2.0), {}), ((1,), {}), ((1, (), 0.5), {})],
    "Keywords": [((), {"a": 1}), ((1,), {}), ((), {})],
    "Same": [((), {}), ((0,), {})], "Written": [((), {}), ((1,), {})], "Hashed": [((), {}), ((1,), {})],
    "Empty": [((), {}), ((1,), {})], "Open": [((), {}), ((1,), {})],
}  # fmt: skip


def _call(cls, arguments):
    try:
        return cls(*arguments[0], **arguments[1])
    except TypeError as error:
        return str(error)


def _hash(value):
    try:
        return hash(value) if type(value).__hash__ is not object.__hash__ else None
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("name", MADE)
def test_values_are_those_of_the_standard_library(name):
    ours, theirs = OURS[name], THEIRS[name]
    assert inspect.signature(ours).__repr__() == inspect.signature(theirs).__repr__()
    assert ours.__match_args__ == theirs.__match_args__
    made = [[_call(cls, arguments) for arguments in MADE[name]] for cls in (ours, theirs)]
    assert name == "Same" or list(map(str, made[0])) == list(map(str, made[1]))
    kept = [[value for value in row if not isinstance(value, str)] for row in made]
    assert [_hash(value) for value in kept[0]] == [_hash(value) for value in kept[1]]
    equal = [[[a == b for b in row] for a in row] for row in kept]
    assert equal[0] == equal[1]
    assert kept[0][0] != kept[1][0] or name == "Written"


@pytest.mark.parametrize("name", [name for name in MADE if name != "Open"])
def test_values_are_frozen_copied_and_changed(name, monkeypatch):
    cls = OURS[name]
    value = next(v for v in (_call(cls, arguments) for arguments in MADE[name]) if isinstance(v, cls))
    for field_name in ("a", "other"):
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{field_name}'"):
            setattr(value, field_name, 1)
        with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{field_name}'"):
            delattr(value, field_name)
    monkeypatch.setattr(sys.modules[__name__], name, cls, raising=False)
    cls.__qualname__ = name
    for other in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value), replace(value)):
        assert type(other) is cls
        assert dataclasses.astuple(other).__repr__() == dataclasses.astuple(value).__repr__()


def test_the_standard_library_extends_a_value():
    @dataclasses.dataclass(frozen=True)
    class Longer(OURS["Plain"]):
        c: int = 5

    assert Longer(1, c=6) == Longer(1, (), 6)
    assert str(Longer(1)).endswith("Longer(a=1, b=(), c=5)")
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):
        dataclasses.dataclass(type("Open", (OURS["Plain"],), {}))


def test_a_value_within_itself_is_written_and_a_cached_property_is_kept():
    value = OURS["Many"](1)
    value.b.append(value)
    assert "b=[..." in repr(value)
    assert value.double == 2
    assert vars(value)["double"] == 2
