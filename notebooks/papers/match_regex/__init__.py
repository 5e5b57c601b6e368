"""MatchRegex: "Partition and Compose: Parallel Complex Event Processing", DEBS 2012."""
