"""Interactive views: the Python half of each widget. The folder `widgets` has the browser half."""
