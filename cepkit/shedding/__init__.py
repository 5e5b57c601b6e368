"""Load shedding: plots and a view of the utilities of events."""
