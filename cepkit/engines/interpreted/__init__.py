"""Engines that interpret a query, so that a new query needs no compilation."""
