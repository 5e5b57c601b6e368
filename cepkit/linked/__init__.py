"""LinkedCEP: chains of partial matches, and the run-based engines it is compared with."""
