"""Encoders, and the model that joins one with task heads."""
