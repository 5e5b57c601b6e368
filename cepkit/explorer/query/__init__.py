"""The text in the editor: its query, its constants as sliders, and Python code with the same result."""
