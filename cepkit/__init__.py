"""cepkit finds temporal patterns in event data, from a notebook: ``df.cep.match(...)``.

The import registers the accessor ``cep`` on pandas DataFrames, and on Spark's when pyspark is imported. All
other modules load when they are first used.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from cepkit.accessor import register_accessor as _register_accessor

if _TYPE_CHECKING:
    from cepkit.api import explain, explore, funnel, match, simulate, tag, why_not
    from cepkit.errors import CepError, CepWarning
    from cepkit.language.builder import all_of, any_of, event, param, seq
    from cepkit.language.expressions.functions import function, pure
    from cepkit.language.expressions.operands import corr, cosine, l2
    from cepkit.language.regex.construction import regex_query
    from cepkit.language.regex.patterns import var
    from cepkit.language.regex.query import RegexQuery
    from cepkit.language.sequences.construction import sequence_query
    from cepkit.language.sequences.query import SequenceQuery
    from cepkit.parallel.agents.crew import Costs
    from cepkit.parallel.engine.divided import RIP, DataParallel
    from cepkit.parallel.engine.engines import Hybrid, Sequential, StateParallel
    from cepkit.streaming import stream
    from cepkit.views import view

__version__ = "0.1.0"

# Where each public name is defined; `tests/test_api.py` compares this with the imports above.
_NAMES_OF_MODULE = {
    "api": "explain explore funnel match simulate tag why_not",
    "errors": "CepError CepWarning",
    "language.builder": "all_of any_of event param seq",
    "language.expressions.functions": "function pure",
    "language.expressions.operands": "corr cosine l2",
    "language.regex.construction": "regex_query",
    "language.regex.patterns": "var",
    "language.regex.query": "RegexQuery",
    "language.sequences.construction": "sequence_query",
    "language.sequences.query": "SequenceQuery",
    "parallel.agents.crew": "Costs",
    "parallel.engine.divided": "RIP DataParallel",
    "parallel.engine.engines": "Hybrid Sequential StateParallel",
    "streaming": "stream",
    "views": "view",
}
_MODULE_OF_NAME = {name: module for module, names in _NAMES_OF_MODULE.items() for name in names.split()}

__all__ = [*sorted(_MODULE_OF_NAME)]


def __getattr__(name: str) -> _Any:
    if name not in _MODULE_OF_NAME:
        from cepkit.errors import nearest

        raise AttributeError(f"cepkit has no attribute {name!r}.{nearest(name, __all__)}")
    value = getattr(_import_module(f"cepkit.{_MODULE_OF_NAME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


_register_accessor()
