"""Windows and joins over events: their values, their meaning on frames, and their open form for streams."""
