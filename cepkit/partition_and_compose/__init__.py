"""The paper on regex matching over partitioned streams: operators, experiments, pictures."""
