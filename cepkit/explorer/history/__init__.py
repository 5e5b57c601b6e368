"""What a user chose: steps back and forth, past queries, and files of saved explorers."""
