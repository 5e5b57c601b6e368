"""Regex queries: automaton, plan, program and the source of the matching kernel."""
