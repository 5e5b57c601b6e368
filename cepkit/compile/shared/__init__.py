"""Code for both kinds of query: binding to a schema, terms, and the writing of kernels."""
