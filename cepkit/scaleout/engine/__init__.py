"""The engine `cepkit.ScatterGather`."""
