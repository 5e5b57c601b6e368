"""The text of the editor: reading it, its constants as sliders, the code that gives the same result."""
