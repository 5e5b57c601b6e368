"""SQL's MATCH_RECOGNIZE: row patterns whose first match by preference counts."""
