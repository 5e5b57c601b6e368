"""The expressions of MATCH_RECOGNIZE: calls of functions, intervals, and the trees of the grammar."""
