"""Vocabulary training: the command's function, and the ways to train."""
