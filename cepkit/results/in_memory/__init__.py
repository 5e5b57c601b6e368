"""What `Matches` is made of: the parts it builds, its counts, its files, its picture and its text."""
