"""One module per paper: functions that return tidy frames."""
