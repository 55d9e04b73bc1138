"""The training loop: engines take steps, the trainer decides when to log, evaluate and save, run_experiment sets it all up."""


def __getattr__(name: str):
    if name == "run_experiment":
        from pretrain.training.experiment import run_experiment

        return run_experiment
    raise AttributeError(f"module 'pretrain.training' has no attribute {name!r}")
