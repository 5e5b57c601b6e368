"""Load shedding: utilities of events, drawn and viewed."""
