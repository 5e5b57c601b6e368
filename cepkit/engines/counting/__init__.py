"""The counting engine: it counts matches first, and lists, draws or aggregates them on demand."""
