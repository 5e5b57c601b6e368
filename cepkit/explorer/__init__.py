"""The pattern explorer: edit a query and see its matches."""
