"""Interactive views: the Python half of each widget; the folder `widgets` holds its browser half."""
