"""Stream operators that the benchmarks of the paper need."""
