"""Results on Spark: lazy matches in a Spark frame, with the methods of `Matches`."""
