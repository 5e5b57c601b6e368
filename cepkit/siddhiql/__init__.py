"""SiddhiQL on frames: patterns, sequences, windows and joins with the rules of Siddhi's engine."""
