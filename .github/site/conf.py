"""Sphinx's settings for the documentation site; `build.py` collects the sources and calls Sphinx."""

import cepkit

project, author, release = "cepkit", "the cepkit developers", cepkit.__version__
extensions = ["sphinx.ext.autodoc", "numpydoc", "myst_nb"]
exclude_patterns = ["build.py"]
html_theme = "pydata_sphinx_theme"
html_title = "cepkit"
html_theme_options = {"navigation_with_keys": False, "show_prev_next": True, "show_nav_level": 2}
html_show_sourcelink = False
# Notebooks show the outputs that they were saved with, and nothing from a network.
nb_execution_mode = "off"
nb_ipywidgets_js = {}
nb_merge_streams = True
myst_heading_anchors = 3
autodoc_typehints = "none"  # numpydoc's sections say the types in words
numpydoc_show_class_members = False  # autodoc lists them
