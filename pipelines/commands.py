"""The commands that run on Beam: a new one is one module and one line here."""

# command -> "module:function", imported when first used; the functions take `runner`, `beam_args` and `dry_run`.
COMMANDS = {
    "create-pretraining": "pipelines.pretraining:create_pretraining",
    "create-finetuning": "pipelines.finetuning:create_finetuning",
}
