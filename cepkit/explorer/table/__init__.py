"""The table of matches: texts of cells, filters, the listed matches, histograms in the heads."""
