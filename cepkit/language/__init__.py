"""The query languages: trees, parsing, printing, and queries. They use no columns and no numpy."""
