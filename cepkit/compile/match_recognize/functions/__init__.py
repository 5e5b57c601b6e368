"""The functions of MATCH_RECOGNIZE on values: numbers, texts and times."""
