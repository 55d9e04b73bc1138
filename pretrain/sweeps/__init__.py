"""Several runs, one after the other: seeds of an experiment, tasks of GLUE."""
