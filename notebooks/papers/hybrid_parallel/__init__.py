"""HYPERSONIC: its experiments, protocol and claims."""
