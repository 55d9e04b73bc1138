"""pretrain glue --init_checkpoint base --input glue --output sweep: fine-tunes on GLUE tasks, and prints the table.

What it does: pretrain.sweeps.glue. In the output folder are records/TASK, TASK/seed-N (the runs), glue.json and glue.tsv.
Called again it resumes.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from nlpdata.cli.parameters import with_common
from nlpdata.cli.results import Summary
from nlpdata.cli.screens import GroupedCommand
from nlpdata.files.paths import is_remote
from nlpdata.options import ACCEPT_LOSS_HELP
from pretrain.settings.backend import set_backend
from pretrain.settings.command_line import AllowOtherTokenizer, Backend, ImportModules, option, run_app
from pretrain.sweeps.glue import GlueOptions, run_glue, table_lines

_log = logging.getLogger("pretrain.glue")

EXAMPLES = """
pretrain glue --init_checkpoint run1 --input glue --output sweep
pretrain glue --init_checkpoint run1 --input glue --output sweep \\
    --tasks cola,mrpc --seeds 5
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=GroupedCommand, epilog=EXAMPLES)
@with_common
def glue_command(
    init_checkpoint: Annotated[
        str,
        option("Model", "Weights to start from.", "--init_checkpoint", metavar="PATH"),
    ],
    input: Annotated[
        str,
        option("Data", "GLUE folder, with a folder for each task (CoLA, MRPC, ...).", "--input", metavar="PATH"),
    ],
    output: Annotated[
        str,
        option("Output", "Folder of records, runs and the table.", "--output", "--model_dir", metavar="PATH"),
    ],
    tasks: Annotated[str, option("Data", "Names of tasks, comma-separated, or `all`.", "--tasks")] = "all",
    seeds: Annotated[
        int,
        option("How it runs", "Runs for each task, with seeds 0 to N-1.", "--seeds", min=1, max=1000),
    ] = 1,
    tokenizer: Annotated[
        str | None,
        option("Model", "Tokenizer file.  [default: the one next to the weights]", "--tokenizer", metavar="PATH"),
    ] = None,
    model_config: Annotated[
        str | None,
        option(
            "Model",
            "Architecture: a name or a JSON file.  [default: the checkpoint's]",
            "--model_config",
            metavar="PATH",
        ),
    ] = None,
    experiment: Annotated[
        str, option("Settings", "Registered experiment under the settings.", "--experiment")
    ] = "bert/sentence_prediction",
    max_seq_length: Annotated[
        int,
        option("Data", "Tokens of a record.", "--max_seq_length", min=8, max=65536),
    ] = 128,
    on_bad_row: Annotated[
        Literal["fail", "skip"],
        option("Data", "What to do about a row that cannot be used: stop, or leave it out.", "--on_bad_row"),
    ] = "fail",
    accept_loss: Annotated[bool, option("Data", ACCEPT_LOSS_HELP, "--accept_loss")] = False,
    config_file: Annotated[
        list[str] | None,
        option("Settings", "YAML over each task's settings.", "--config_file", metavar="PATH"),
    ] = None,
    params_override: Annotated[
        list[str] | None,
        option("Settings", "Fields over everything else, e.g. a.b=1,c.d=2.", "--params_override"),
    ] = None,
    backend: Backend = None,
    import_module: ImportModules = None,
    allow_other_tokenizer: AllowOtherTokenizer = False,
) -> Summary:
    """Fine-tune on GLUE tasks, and print the table of their scores."""
    _log.info(set_backend(backend, os.environ, [] if is_remote(output) else sorted(Path(output).glob("*/seed-*"))))
    options = GlueOptions(
        init_checkpoint=init_checkpoint,
        input=input,
        output=output,
        tasks=[name for name in tasks.split(",") if name.strip()],
        seeds=seeds,
        tokenizer=tokenizer,
        model_config=model_config,
        experiment=experiment,
        max_seq_length=max_seq_length,
        on_bad_row=on_bad_row,
        accept_loss=accept_loss,
        config_files=config_file or (),
        params_overrides=params_override or (),
        import_modules=import_module or (),
        allow_other_tokenizer=allow_other_tokenizer,
    )
    results = run_glue(options)
    return Summary("glue", {"output": output, "table": results}, table_lines(results))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code when called with argv, else exits."""
    return run_app(app, "glue", argv)


if __name__ == "__main__":
    main()
