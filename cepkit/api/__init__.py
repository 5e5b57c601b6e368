"""The functions that users call on any frame. The accessor ``df.cep`` has the same functions as methods."""
