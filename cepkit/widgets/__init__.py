"""Interactive views: the Python half of each widget; its browser half lies in the folder `widgets`."""
