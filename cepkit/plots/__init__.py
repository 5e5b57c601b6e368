"""Pictures from tidy data: automata as DOT and SVG, matches as plotly figures. This room matches nothing."""
