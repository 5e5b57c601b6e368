"""Answers to questions about queries of MATCH_RECOGNIZE."""
