"""The stages of a run: parts with data, a batch or a depth of their own."""
