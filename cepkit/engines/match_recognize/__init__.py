"""The engine of MATCH_RECOGNIZE: the preferred match from each row, never exponential."""
