"""The figures, tables and claims of the thesis."""
