"""SiddhiQL: trees, grammar, parsing and printing. No module here knows columns or runs anything."""
