"""LinkedCEP, which keeps partial matches in chains, and the run-based engines for comparison."""
