"""The user's side of an explorer: it reads the text and the choices, runs them, and keeps steps back."""
