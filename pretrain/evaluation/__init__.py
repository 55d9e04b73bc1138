"""Metrics as the benchmarks define them, on the host, in float64, over all examples at once."""
