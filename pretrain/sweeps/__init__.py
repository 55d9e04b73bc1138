"""Several runs, one after the other: seeds of an experiment, datasets of GLUE."""
