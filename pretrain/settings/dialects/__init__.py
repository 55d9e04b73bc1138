"""Configurations of other systems, translated to ours."""
