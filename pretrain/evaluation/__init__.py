"""Metrics as the benchmarks define them, on the host, in float64, over all examples at once.

Of no examples, and of numbers that hold a nan, a metric is nan, and so is a mean over it. A correlation with something
constant, which is not defined, is 0: it is unrelated to the targets.
"""
