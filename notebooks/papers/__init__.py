"""The experiments of the papers: what the notebooks 10 to 50 show and what their claims rest on."""
