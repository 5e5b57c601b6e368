"""The cost model of load shedding: cost of an event, limits of buffers, utilities of events."""
