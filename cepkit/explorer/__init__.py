"""The pattern explorer: edit a query and look at its matches; its parts know no browser but `explorer.py`."""
