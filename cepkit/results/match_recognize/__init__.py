"""What a result of MATCH_RECOGNIZE is made of, its explanation, and its matches for pictures and boards."""
