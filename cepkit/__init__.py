"""cepkit finds temporal patterns in event data, from a notebook: ``df.cep.match(...)``.

Importing it registers the accessor ``cep`` on pandas DataFrames and, where pyspark is installed, on Spark's.
numba is loaded at the first match.
"""

import importlib.util as _importlib_util

import pandas as _pandas

from cepkit.api import CepAccessor, explain, explore, funnel, match, simulate, step, tag, why_not
from cepkit.errors import CepError, CepWarning
from cepkit.language.builder import all_of, any_of, event, param, seq
from cepkit.language.expressions.functions import function, pure
from cepkit.language.expressions.operands import corr, cosine, l2
from cepkit.language.regex.construction import regex_query
from cepkit.language.regex.patterns import any_of_patterns, var
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.construction import sequence_query
from cepkit.language.sequences.query import SequenceQuery
from cepkit.parallel.agents.crew import Costs
from cepkit.parallel.engine.divided import RIP, DataParallel
from cepkit.parallel.engine.engines import Hybrid, Sequential, StateParallel
from cepkit.streaming import stream
from cepkit.views import view

__version__ = "0.1.0"

__all__ = [
    "RIP",
    "CepError",
    "CepWarning",
    "Costs",
    "DataParallel",
    "Hybrid",
    "RegexQuery",
    "SequenceQuery",
    "Sequential",
    "StateParallel",
    "all_of",
    "any_of",
    "any_of_patterns",
    "corr",
    "cosine",
    "event",
    "explain",
    "explore",
    "function",
    "funnel",
    "l2",
    "match",
    "param",
    "pure",
    "regex_query",
    "seq",
    "sequence_query",
    "simulate",
    "step",
    "stream",
    "tag",
    "var",
    "view",
    "why_not",
]

if "cep" not in _pandas.DataFrame.__dict__:  # a notebook may reload the package
    _pandas.api.extensions.register_dataframe_accessor("cep")(CepAccessor)
else:
    _pandas.DataFrame.cep = property(CepAccessor)

if _importlib_util.find_spec("pyspark") is not None:
    from pyspark.sql import DataFrame as _SparkDataFrame

    # The parent of the classic and of the Connect class.
    _SparkDataFrame.cep = property(CepAccessor)
