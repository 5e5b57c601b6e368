"""Result columns of matches."""
