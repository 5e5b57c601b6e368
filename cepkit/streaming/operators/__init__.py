"""Windows, joins and chains in open streams."""
