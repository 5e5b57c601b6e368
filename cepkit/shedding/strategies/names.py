"""Strategies by name. A strategy loads when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cepkit.errors import CepError, nearest
from cepkit.shedding.strategies.strategy import Strategy

# Name of each strategy: its module in this room, and its class.
_STRATEGIES: dict[str, tuple[str, str]] = {
    "none": ("by_type", "NoShedding"),
    "random": ("by_type", "Random"),
    "random_input": ("by_type", "RandomInput"),
    "integral": ("by_type", "IntegralShedding"),
    "fractional": ("by_type", "FractionalShedding"),
    "espice": ("espice", "ESpice"),
    "hspice": ("hspice", "HSpice"),
    "pspice": ("pspice", "PSpice"),
    "zhao": ("zhao", "Zhao"),
    "darling": ("darling", "Darling"),
}


def strategy_names() -> tuple[str, ...]:
    """Return the names of all strategies."""
    return tuple(_STRATEGIES)


def class_of_strategy(name: str) -> Any:
    """Return the class of a strategy by name."""
    module, class_name = _STRATEGIES[name]
    return getattr(import_module(f"cepkit.shedding.strategies.{module}"), class_name)


def modules_of_strategies() -> dict[str, str]:
    """Return the module of each class of strategies, below ``cepkit.shedding``."""
    return {class_name: f"strategies.{module}" for module, class_name in _STRATEGIES.values()}


def as_strategy(given: Any) -> Strategy:
    """Return a strategy for its name or for a value of its own."""
    if isinstance(given, str):
        if given not in _STRATEGIES:
            names = strategy_names()
            raise CepError(
                f"shedding={given!r} is not known.{nearest(given, names)} Strategies: {list(names)}"
            )
        return class_of_strategy(given)()
    if isinstance(given, type):
        raise CepError(f"shedding={given.__name__} is a class. Give a value: {given.__name__}()")
    if not callable(getattr(given, "begin", None)):
        raise CepError(
            f"shedding={given!r}: give a name of {list(strategy_names())}, or a value with a method "
            "begin(training)"
        )
    return given
