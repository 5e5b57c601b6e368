"""The accessor ``df.cep`` on the frames of pandas, Spark, polars and DuckDB. It imports no engines."""

from __future__ import annotations

import functools
import html
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import pandas as pd
from pandas.api.typing import DataFrameGroupBy, SeriesGroupBy

from cepkit.errors import CepError, in_short, nearest

if TYPE_CHECKING:
    from cepkit.api import matching, questions, virtual_time, windows
    from cepkit.api import searching as exploring
    from cepkit.events import Frame
    from cepkit.idioms import runs as grouping

_EXAMPLES = {
    "match": 'df.cep.match("a b+ c", define={"a": "x > 1", …}, partition_by="key", order_by="ts")',
    "tag": 'df.cep.tag("a b+ c", …).groupby("match").size()',
    "explain": 'print(df.cep.explain("a b+ c", …))',
    "funnel": 'df.cep.funnel("PATTERN SEQ(A a, B b, C c) WITHIN 1 hour", event_type="kind", order_by="ts")',
    "why_not": "df.cep.why_not(query, rows=[3, 7], …)",
    "step": "for moment in df.cep.step(query, …): print(moment)",
    "simulate": "df.cep.simulate(query, engine=cep.Hybrid(threads=8), …).makespan",
    "replay": 'df.cep.replay(query, latency_bound="1.5 s", shedding="random", …).recall',
    "explore": 'df.cep.explore("a b+ c", …)',
    "window": 'df.cep.window({"total": "sum(price)"}, time="15 s", group_by="symbol", order_by="ts")',
    "join": 'df.cep.join(other, left=cep.Window(length=20), right=cep.Window(time="1 min"), on="symbol", …)',
    "runs": 'df.cep.runs("price > prev(price)", partition_by="symbol", order_by="ts")',
    "sessions": 'df.cep.sessions(gap="30 min", partition_by="user", order_by="ts")',
    "transaction": 'df.cep.transaction(by="user", starts_with="action == \'login\'", order_by="ts")',
}


class _Method:
    """A function of `cepkit` as a method of the accessor; the function loads on first use."""

    def __init__(self, name: str):
        self._name = name

    def __get__(self, accessor: CepAccessor | None, owner: type) -> Any:
        method = self._method
        return method if accessor is None else MethodType(method, _Receiver(accessor, method))

    @functools.cached_property
    def _method(self) -> Callable[..., Any]:
        return _as_method(getattr(import_module("cepkit"), self._name))


class _Receiver:
    """What a method is bound to. ``df.cep.match`` without brackets prints its text: how the help begins."""

    def __init__(self, accessor: CepAccessor, method: Callable[..., Any]):
        self._frame, self._method = accessor._frame, method

    def __repr__(self) -> str:
        name, doc = self._method.__name__, inspect.getdoc(self._method) or ""
        above = doc.partition("\nParameters\n")[0].replace("`", "").strip()
        return f"df.cep:\n\n{above}\n\n  {_EXAMPLES[name]}\n\nhelp(df.cep.{name}) explains every keyword."


def _as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that calls a function with the accessor's frame."""
    # Its signature and its docstring are those of the function, without the parameter ``frame``.

    @functools.wraps(function)
    def method(self: _Receiver, /, *args: Any, **keywords: Any) -> Any:
        return function(self._frame, *args, **keywords)

    signature = inspect.signature(function)
    _, *others = (p.replace(annotation=_PlainType(p.annotation)) for p in signature.parameters.values())
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    doc = inspect.cleandoc(function.__doc__ or "")
    doc = re.sub(r"^frame(, | : .*\n( .*\n)*)", "", doc, count=1, flags=re.MULTILINE)
    # cep.match(df, query) in an example becomes df.cep.match(query), also when the line breaks after "(".
    doc = re.sub(rf"\bcep\.({'|'.join(_EXAMPLES)})\((\s*(?:\.\.\. +)?)(\w+), ", r"\3.cep.\1(\2", doc)
    returned = _PlainType(signature.return_annotation)
    method.__dict__["__signature__"] = signature.replace(
        parameters=[own, *others], return_annotation=returned
    )
    method.__qualname__, method.__module__, method.__doc__ = f"CepAccessor.{function.__name__}", __name__, doc
    return method


class _PlainType(str):
    """A type in words: signatures show it without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class CepAccessor:
    """Temporal patterns in the rows of a frame: ``df.cep.match(...)`` and related methods.

    The methods are the functions of `cepkit` that take a frame, such as `cepkit.match`, without their first
    parameter. Type checkers do not know accessors of pandas. ``cepkit types`` writes stubs for pyright and VS
    Code; ``cepkit.match(df, ...)`` is the same call with types that every checker knows.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12, 13, 11, 14, 12, 9]})
    >>> print(str(walk.cep).splitlines()[1])
      match       Find the matches of a query in a frame.
    """

    def __init__(self, frame: Frame):
        self._frame = frame
        self.__doc__ = _HELP  # help(df.cep) shows it in place of all docstrings of all methods

    if not TYPE_CHECKING:  # checkers know all attributes

        def __getattr__(self, name: str) -> Any:
            instead = _INSTEAD.get(name)
            hint = f" {instead}" if instead else nearest(name, _EXAMPLES)
            raise in_short(AttributeError(f"df.cep has no {name!r}.{hint or _ALL}"))

    else:
        match = matching.match
        tag = matching.tag
        explain = questions.explain
        funnel = questions.funnel
        why_not = questions.why_not
        step = questions.step
        simulate = virtual_time.simulate
        replay = virtual_time.replay
        explore = exploring.explore
        window = windows.window
        join = windows.join
        runs = grouping.runs
        sessions = grouping.sessions
        transaction = grouping.transaction

    def __repr__(self) -> str:
        return "\n".join(
            [_HEAD, *(f"  {name:11} {said}\n              {code}" for name, said, code in _methods())]
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td style='text-align:left'>{html.escape(said)}<br>"
            f"<code>{html.escape(code)}</code></td></tr>"
            for name, said, code in _methods()
        )
        return f"<p>{html.escape(_HEAD)}</p><table>{rows}</table>"


for _name in _EXAMPLES:
    setattr(CepAccessor, _name, _Method(_name))

_HEAD = (
    "df.cep finds temporal patterns in the rows of df; help(df.cep.match) explains every keyword, and "
    "cep.recipes('gap') has examples by the words of a question."
)


_ALL = f" Methods: {', '.join(_EXAMPLES)}"
_HELP = "\n".join([_HEAD, "", *(f"{code}\n    help(df.cep.{name})" for name, code in _EXAMPLES.items())])
# What people write who know other libraries.
_RESULTS = "Results have it: df.cep.match(query, …).to_frame(), count(), plot()."
_INSTEAD = {name: _RESULTS for name in ("to_frame", "to_dataframe", "to_pandas", "count", "plot", "head")}


def _methods() -> list[tuple[str, str, str]]:
    """Return the name, the docstring's first line without markup, and an example of every method."""
    return [
        (name, (inspect.getdoc(getattr(CepAccessor, name)) or "").partition("\n")[0].replace("`", ""), code)
        for name, code in _EXAMPLES.items()
    ]


class NoFrame:
    """The attribute ``cep`` of an object that is no frame: its methods say what to write instead.

    Examples
    --------
    >>> import cepkit
    >>> import pandas as pd
    >>> pd.Series([1, 2]).cep.match("up")
    Traceback (most recent call last):
    cepkit.errors.CepError: a pandas Series has no columns; call to_frame('value') first
    """

    def __init__(self, given: Any):
        self._given = given

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise CepError(repr(self))

    def __repr__(self) -> str:
        from cepkit.frames.sources import no_frame

        return no_frame(self._given)


# --- registration on the classes of frames

# The classes of other libraries, by the module that has them. DataFrame of Spark is the parent of the classic
# and of the Connect class.
_CLASSES = {
    "pyspark.sql": ("DataFrame",),
    "polars": ("DataFrame", "LazyFrame"),
    "duckdb": ("DuckDBPyRelation",),
}


def register_accessor() -> None:
    """Register the accessor on pandas' DataFrame now, and on others when their modules are imported."""
    if "cep" in pd.DataFrame.__dict__:  # a notebook may reload the package
        pd.DataFrame.cep = property(CepAccessor)  # type: ignore[attr-defined]  # pandas' stubs know no accessors
    else:
        pd.api.extensions.register_dataframe_accessor("cep")(CepAccessor)
    for kind in (pd.Series, DataFrameGroupBy, SeriesGroupBy):  # no frames: each says what to write instead
        kind.cep = property(NoFrame)  # type: ignore[union-attr]
    for name in _CLASSES:
        _register_on(sys.modules.get(name))
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _register_on(module: ModuleType | None) -> None:
    for name in _CLASSES[module.__name__] if module is not None else ():
        if (kind := getattr(module, name, None)) is not None:
            kind.cep = property(CepAccessor)


class _Finder(MetaPathFinder):
    """Finds the modules of frames as Python does, and registers the accessor once they are loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of such a module with a loader that registers; None for other modules."""
        if fullname not in _CLASSES:
            return None
        others = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next((spec for finder in others if (spec := finder.find_spec(fullname, path, target))), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _RegisteringLoader(spec.loader)
        return spec


class _RegisteringLoader(Loader):
    """Loads a module with another loader, then registers the accessor."""

    def __init__(self, loader: Loader):
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then register the accessor on its frames."""
        self._loader.exec_module(module)
        _register_on(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
