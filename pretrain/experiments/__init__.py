"""Named, complete configurations: a function of no arguments -> ExperimentConfig; its docstring's first line lists it."""
