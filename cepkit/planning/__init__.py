"""Arguments, validation, choice of the engine, and the order of evaluation."""
