"""Load shedding: keep a latency bound under overload, and lose as few matches as possible.

`cepkit.replay` runs a query in virtual time, and `cepkit.stream` with a latency bound in real time.
Strategies, schedules of arrivals and prices are values of this package: ``cepkit.shedding.Random()``,
``cepkit.shedding.PeakArrivals(factor=100)``.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

# Where each name is defined, apart from strategies; those are in `strategies.names`.
_NAMES_OF_MODULE = {
    "live_report": "SheddingReport",
    "live_learning": "WallClock",
    "live_stream": "LiveStream",
    "arrivals": "ColumnArrivals ConstantArrivals GivenArrivals OverloadArrivals PeakArrivals "
    "PoissonArrivals Prices measure_prices",
    "replay": "ReplayResult",
    "server": "VirtualClock",
    "tree_engine": "Tree",
    "strategies.strategy": "Event Load Shedder Strategy Training",
}
_MODULE_OF_NAME = {name: module for module, names in _NAMES_OF_MODULE.items() for name in names.split()}


def _modules() -> dict[str, str]:
    from cepkit.shedding.strategies.strategy import modules_of_strategies

    return {**_MODULE_OF_NAME, **modules_of_strategies()}


def __getattr__(name: str) -> _Any:
    if name.startswith("_"):
        raise AttributeError(f"cepkit.shedding has no attribute {name!r}")
    modules = _modules()
    if name not in modules:
        from cepkit.errors import nearest

        raise AttributeError(f"cepkit.shedding has no attribute {name!r}.{nearest(name, modules)}")
    value = getattr(_import_module(f"cepkit.shedding.{modules[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_modules())
