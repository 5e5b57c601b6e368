"""Common questions in one line: runs of rows, sessions, and funnels of users."""
