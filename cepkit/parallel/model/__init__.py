"""The cost model of agents: rates, costs and the allocation of threads."""
