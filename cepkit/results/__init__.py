"""Results: the matches of a query as one object for every kind of query, and how the query is read."""
