"""Results on Spark: the matches in a Spark frame, lazy, with the surface of those in memory."""
