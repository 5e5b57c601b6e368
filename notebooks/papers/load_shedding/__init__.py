"""DARLING: its queries, figures and claims."""
