"""The queries of the scatter-gather thesis on real nodes of Siddhi 4."""
