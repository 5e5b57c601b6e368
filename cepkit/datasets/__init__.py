"""Generated data: trades, tweets, texts in original formats, and the bundled samples made of them."""

from cepkit.datasets.abc_stream import abc_stream
from cepkit.datasets.raw import eoddata_lines, inet_lines, nasdaq100_lines
from cepkit.datasets.samples import SampleNotFoundError, load_sample, sample, sample_names, write_samples
from cepkit.datasets.trades import PAPER_TRADES, trades
from cepkit.datasets.traffic import citybench_lines, traffic
from cepkit.datasets.tweets import PAPER_TWEETS, tweets, tweets_as_atom_xml

__all__ = [
    "PAPER_TRADES",
    "PAPER_TWEETS",
    "SampleNotFoundError",
    "abc_stream",
    "citybench_lines",
    "eoddata_lines",
    "inet_lines",
    "load_sample",
    "nasdaq100_lines",
    "sample",
    "sample_names",
    "trades",
    "traffic",
    "tweets",
    "tweets_as_atom_xml",
    "write_samples",
]
