"""Codes that the kernels of row patterns and their callers share. This module has no kernels."""

# Instead of a state.
MATCH, NO_STATE = -1, -2  # the match is complete, nothing can follow
NO_CONDITION = -1  # of a state that takes every row
UNKNOWN = 65535  # a cell of a table that nobody computed yet
# Where the next match can begin.
PAST_LAST_ROW, TO_NEXT_ROW, TO_FIRST, TO_LAST = range(4)
# Cells of ``at``, the state between calls.
PARTITION, PLACE, N_MATCHES, N_STATES, TARGET = range(5)
# Cells of each chain in the ``at`` of `mark_places`; PLACE is the same.
AT_SET, LOW = 0, 2
# Cells of the ``at`` of `find_separate_matches`.
STATE, N_BEGUN, N_ENDED = range(3)
# What a kernel returns.
DONE, ASKS, IS_FULL, WORKED, NO_TARGET = range(5)
# Aggregates.
COUNT, SUM, SUM_FROM_ZERO, MIN, MAX = range(5)
