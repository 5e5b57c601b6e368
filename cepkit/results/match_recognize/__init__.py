"""What a result of MATCH_RECOGNIZE is made of: the search, its columns, and the SELECT around it."""
