"""Engines: they take the steps of a run on the devices of a backend, and own the state meanwhile."""
