"""What views of results show in tests: rates of agents and a table of utilities."""

from cepkit.parallel.model.rates import AgentRates

RATES = AgentRates((0.5, 1.0, 2.0, 0.25), window=10.0, selectivities=(1.0, 0.1, 0.2, 0.5))
GOOD = {"event_type": ["A", "B"], "utility": [0.5, 1], "position": [0, 1], "n": [1, 2]}
