"""The checkpoints of a run: which are kept, how they are written, and how another process follows them."""
