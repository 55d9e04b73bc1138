"""Configuration: the typed experiment, files, flags and overrides, and which backend computes."""
