"""Tasks: a dataset, a model with heads, a loss and metrics."""
