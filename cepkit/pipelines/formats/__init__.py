"""The original file formats that `ingest` reads."""
