"""cepkit finds temporal patterns in event data, from a notebook: ``df.cep.match(...)``.

The import registers the accessor ``cep`` on pandas DataFrames, and on Spark's when pyspark is imported. All
other modules load when they are first used.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from cepkit import commands as _commands

if _commands.is_command():  # before pandas, which loads for most of a second
    _commands.exit_at_ctrl_c()

from cepkit.accessor import register_accessor as _register_accessor
from cepkit.doors import name_door as _name_door

if _TYPE_CHECKING:
    from cepkit.api.matching import match, tag
    from cepkit.api.questions import explain, funnel, step, why_not
    from cepkit.api.searching import explore
    from cepkit.api.sql import sql
    from cepkit.api.virtual_time import replay, simulate
    from cepkit.api.windows import join, window
    from cepkit.detection.eql import eql
    from cepkit.detection.sigma import sigma
    from cepkit.engines.counting.estimate import CountEstimate
    from cepkit.errors import (
        CepError,
        CepWarning,
        ColumnNotFoundError,
        MissingDependencyError,
        OrderError,
        PatternSyntaxError,
        PredicateError,
        ResultTooLargeError,
        TieWarning,
        UnsupportedQueryError,
    )
    from cepkit.explorer.explorer import Explorer
    from cepkit.idioms.cookbook import recipes, vocabulary
    from cepkit.idioms.runs import runs, sessions, transaction
    from cepkit.insight.funnel import FunnelResult
    from cepkit.insight.moments import Moment, PartialMatch
    from cepkit.insight.why_not import WhyNot
    from cepkit.language.builder import all_of, any_of, event, param, seq
    from cepkit.language.expressions.functions import function, pure
    from cepkit.language.expressions.operands import corr, cosine, l2
    from cepkit.language.regex import RegexQuery, regex_query
    from cepkit.language.row_patterns import var
    from cepkit.language.sequences.construction import sequence_query
    from cepkit.language.sequences.patterns import SequenceQuery
    from cepkit.parallel.agents import Costs
    from cepkit.parallel.divided import RIP, DataParallel
    from cepkit.parallel.engines import Hybrid, Sequential, StateParallel
    from cepkit.parallel.outcome import ParallelRun
    from cepkit.parallel.trace import Trace
    from cepkit.results.found import Match
    from cepkit.results.matches import Matches, SparkMatches
    from cepkit.results.views import Explanation, view
    from cepkit.scaleout.k_slack import KSlack
    from cepkit.scaleout.scatter_gather import ScatterGather, plan
    from cepkit.shedding.strategies.cohesive import Cohesive
    from cepkit.shedding.strategies.darling import Darling
    from cepkit.siddhiql.running import siddhi
    from cepkit.streaming.opening import stream
    from cepkit.streaming.spark_results import SparkStream
    from cepkit.streaming.stream import Stream
    from cepkit.translation.translating import translate
    from cepkit.windows.values import Join, Window

__version__ = "0.1.0"

# Where each public name is defined; `tests/test_api.py` compares this with the imports above.
_NAMES_OF_MODULE = {
    "api.searching": "explore",
    "api.matching": "match tag",
    "api.questions": "explain funnel step why_not",
    "api.sql": "sql",
    "api.virtual_time": "replay simulate",
    "api.windows": "join window",
    "detection.eql": "eql",
    "detection.sigma": "sigma",
    "engines.counting.estimate": "CountEstimate",
    "errors": "CepError CepWarning ColumnNotFoundError MissingDependencyError OrderError PatternSyntaxError "
    "PredicateError ResultTooLargeError TieWarning UnsupportedQueryError",
    "explorer.explorer": "Explorer",
    "idioms.cookbook": "recipes vocabulary",
    "idioms.runs": "runs sessions transaction",
    "insight.funnel": "FunnelResult",
    "insight.moments": "Moment PartialMatch",
    "insight.why_not": "WhyNot",
    "language.builder": "all_of any_of event param seq",
    "language.expressions.functions": "function pure",
    "language.expressions.operands": "corr cosine l2",
    "language.regex": "RegexQuery regex_query",
    "language.row_patterns": "var",
    "language.sequences.construction": "sequence_query",
    "language.sequences.patterns": "SequenceQuery",
    "parallel.agents": "Costs",
    "parallel.outcome": "ParallelRun",
    "parallel.divided": "RIP DataParallel",
    "parallel.engines": "Hybrid Sequential StateParallel",
    "parallel.trace": "Trace",
    "results.found": "Match",
    "results.matches": "Matches SparkMatches",
    "results.views": "Explanation view",
    "scaleout.scatter_gather": "ScatterGather plan",
    "scaleout.k_slack": "KSlack",
    "shedding.strategies.cohesive": "Cohesive",
    "shedding.strategies.darling": "Darling",
    "siddhiql.running": "siddhi",
    "streaming.opening": "stream",
    "streaming.spark_results": "SparkStream",
    "streaming.stream": "Stream",
    "translation.translating": "translate",
    "windows.values": "Join Window",
}
_MODULE_OF_NAME = {name: module for module, names in _NAMES_OF_MODULE.items() for name in names.split()}

# A list, since type checkers read no expression here.
__all__ = [
    "RIP", "CepError", "CepWarning", "Cohesive", "ColumnNotFoundError", "Costs", "CountEstimate", "Darling",
    "DataParallel", "Explanation", "Explorer", "FunnelResult", "Hybrid", "Join", "KSlack", "Match", "Matches",
    "MissingDependencyError", "Moment", "OrderError", "ParallelRun", "PartialMatch", "PatternSyntaxError",
    "PredicateError", "RegexQuery", "ResultTooLargeError", "ScatterGather",
    "SequenceQuery", "Sequential", "SparkMatches", "SparkStream", "StateParallel",
    "Stream", "TieWarning", "Trace", "UnsupportedQueryError", "WhyNot", "Window", "all_of", "any_of", "corr",
    "cosine", "eql", "event", "explain", "explore", "function", "funnel", "join", "l2", "match", "param",
    "plan", "pure", "recipes", "regex_query", "replay", "runs", "seq", "sequence_query", "sessions", "siddhi",
    "sigma", "simulate", "sql", "step", "stream", "tag", "transaction", "translate", "var", "view",
    "vocabulary", "why_not",
    "window",
]  # fmt: skip


# Packages of their own, with the names of one capability.
_PACKAGES = ("shedding",)


def __getattr__(name: str) -> _Any:
    if name in _PACKAGES:
        return _import_module(f"cepkit.{name}")
    if name not in _MODULE_OF_NAME:
        from cepkit.errors import in_short, nearest

        raise in_short(AttributeError(f"cepkit has no attribute {name!r}.{nearest(name, __all__)}"))
    from cepkit.progress import collect_later

    with collect_later():
        value = getattr(_import_module(f"cepkit.{_MODULE_OF_NAME[name]}"), name)
    globals()[name] = value
    return value


def load_ipython_extension(shell: _Any) -> None:
    """Register the cell magic ``%%cep`` for ``%load_ext cepkit``."""
    from cepkit.commands.cell_magic import register

    register(shell)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


_register_accessor()
# What lower rooms open without knowing it.
_name_door("wings", "cepkit.api.searching:register_wings")
_name_door("explore", "cepkit.explorer.explorer:Explorer")
_name_door("view", "cepkit.results.views:view")
_name_door("board of a stream", "cepkit.widgets.panels:StreamBoard")
_name_door("stream with a latency bound", "cepkit.shedding.live_stream:open_live_stream")
_name_door("load shedding of a Spark stream", "cepkit.shedding.live_stream:bucket_shedding")
_name_door("chain in a Spark stream", "cepkit.streaming.spark_binding:chain_stream")
_name_door("stream of a Spark frame", "cepkit.streaming.spark_binding:match_stream")
_name_door("saved stream after a buffer", "cepkit.scaleout.k_slack:open_saved_stream")
_name_door("saved stream with a latency bound", "cepkit.shedding.live_stream:open_saved_stream")
