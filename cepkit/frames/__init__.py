"""DataFrames and tables to events and back."""
