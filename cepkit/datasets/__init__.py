"""Generated data: trades, bars, ticks, cards, tweets, traffic, buses, a home, a soccer match, raw formats."""

from cepkit.datasets.city import bus_positions, citybench_lines, siri_lines, traffic
from cepkit.datasets.constant_rate import abc_stream, card_transactions, poisson_types, stock_ticks
from cepkit.datasets.minute_bars import BarParameters, minute_bars
from cepkit.datasets.samples import (
    SampleNotFoundError,
    eoddata_lines,
    inet_lines,
    load_sample,
    nasdaq100_lines,
    sample,
    sample_names,
    write_samples,
)
from cepkit.datasets.smart_home import HomeParameters, casas_lines, smart_home, window_attributes
from cepkit.datasets.soccer import debs2013_lines, soccer_sensors
from cepkit.datasets.stock_bars import stock_bars
from cepkit.datasets.trades import PAPER_TRADES, trades
from cepkit.datasets.tweets import PAPER_TWEETS, tweets, tweets_as_atom_xml

__all__ = [
    "PAPER_TRADES", "PAPER_TWEETS", "BarParameters", "HomeParameters", "SampleNotFoundError",
    "abc_stream", "bus_positions", "card_transactions", "casas_lines", "citybench_lines",
    "debs2013_lines", "eoddata_lines", "inet_lines", "load_sample", "minute_bars", "nasdaq100_lines",
    "poisson_types", "sample", "sample_names", "siri_lines", "smart_home", "soccer_sensors", "stock_bars",
    "stock_ticks", "trades", "traffic", "tweets", "tweets_as_atom_xml", "window_attributes",
    "write_samples",
]  # fmt: skip
