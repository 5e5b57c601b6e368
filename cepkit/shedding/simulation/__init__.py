"""Load shedding in virtual time: one server, a schedule of arrivals, and prices of work."""
