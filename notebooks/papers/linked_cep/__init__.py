"""LinkedCEP: its experiments, counter-examples and claims."""
