"""What both kinds of query compile with: binding to a schema, terms, and the writing of kernels."""
