"""Nodes in virtual time: first-come-first-served servers with limited memory, and the links between them."""
