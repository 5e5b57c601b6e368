"""The presenters of an explorer: each fills a part of the board in the background."""
