"""The original file formats that can be ingested."""
