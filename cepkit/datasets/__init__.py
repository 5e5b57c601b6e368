"""Generated data: trades, bars, ticks, cards, tweets, traffic, buses, a home, a soccer match."""

from cepkit.datasets.bars import BarParameters, minute_bars, stock_bars
from cepkit.datasets.city import bus_positions, traffic
from cepkit.datasets.constant_rate import abc_stream, card_transactions, poisson_types, stock_ticks
from cepkit.datasets.samples import SampleNotFoundError, load_sample, sample, sample_names
from cepkit.datasets.smart_home import HomeParameters, smart_home, window_attributes
from cepkit.datasets.soccer import soccer_sensors
from cepkit.datasets.trades import PAPER_TRADES, trades
from cepkit.datasets.tweets import PAPER_TWEETS, tweets, tweets_as_atom_xml

__all__ = [
    "PAPER_TRADES", "PAPER_TWEETS", "BarParameters", "HomeParameters", "SampleNotFoundError",
    "abc_stream", "bus_positions", "card_transactions", "load_sample", "minute_bars", "poisson_types",
    "sample", "sample_names", "smart_home", "soccer_sensors", "stock_bars", "stock_ticks", "trades",
    "traffic", "tweets", "tweets_as_atom_xml", "window_attributes",
]  # fmt: skip
