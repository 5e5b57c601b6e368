"""Results: what a query found, held as one object for every kind of query, and how the query was read."""
