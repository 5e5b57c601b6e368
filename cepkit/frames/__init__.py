"""DataFrames and tables as sources of events, and results as frames."""
