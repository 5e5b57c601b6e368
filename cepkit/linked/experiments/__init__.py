"""The experiments of the LinkedCEP paper."""
