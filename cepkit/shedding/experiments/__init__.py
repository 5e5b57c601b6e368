"""The experiments of the DARLING paper: its queries and streams."""
