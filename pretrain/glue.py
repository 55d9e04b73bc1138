"""python -m pretrain.glue --init_checkpoint base --input glue --output sweep: fine-tunes on GLUE tasks, and prints the table.

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
from nlpdata.files.paths import is_remote
from nlpdata.options import ACCEPT_LOSS_HELP
from pretrain.settings.backend import choose_backend
from pretrain.settings.command_line import AllowOtherTokenizer, ImportModules, run_app
from pretrain.sweeps.glue import GlueOptions, run_glue, table_lines

_log = logging.getLogger("pretrain.glue")

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
@with_common
def glue_command(
    init_checkpoint: Annotated[
        str, typer.Option("--init_checkpoint", "--init-checkpoint", help="Weights to start from.")
    ],
    input: Annotated[str, typer.Option(help="GLUE folder, with a folder for each task (CoLA, MRPC, ...).")],
    output: Annotated[str, typer.Option("--output", "--model_dir", help="Folder of records, runs and the table.")],
    tasks: Annotated[str, typer.Option(help="Names of tasks, comma-separated, or `all`.")] = "all",
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs for each task, with seeds 0 to N-1.")] = 1,
    tokenizer: Annotated[
        str | None, typer.Option(help="Tokenizer file.  [default: the one next to the weights]")
    ] = None,
    model_config: Annotated[
        str | None,
        typer.Option(
            "--model_config", "--model-config", help="Architecture: a name or a JSON file.  [default: the checkpoint's]"
        ),
    ] = None,
    experiment: Annotated[
        str, typer.Option(help="Registered experiment under the settings.")
    ] = "bert/sentence_prediction",
    max_seq_length: Annotated[
        int, typer.Option("--max_seq_length", "--max-seq-length", min=8, max=65536, help="Tokens of a record.")
    ] = 128,
    on_bad_row: Annotated[
        Literal["fail", "skip"],
        typer.Option(
            "--on_bad_row", "--on-bad-row", help="What to do about a row that cannot be used: stop, or leave it out."
        ),
    ] = "fail",
    accept_loss: Annotated[bool, typer.Option("--accept_loss", "--accept-loss", help=ACCEPT_LOSS_HELP)] = False,
    config_file: Annotated[
        list[str] | None, typer.Option("--config_file", "--config-file", help="YAML over each task's settings.")
    ] = None,
    params_override: Annotated[
        list[str] | None,
        typer.Option("--params_override", "--params-override", help="Fields over everything else, e.g. a.b=1,c.d=2."),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            help="Library to compute with: auto, tensorflow or jax.  [default: KERAS_BACKEND, else auto]",
            show_default=False,
        ),
    ] = None,
    import_module: ImportModules = None,
    allow_other_tokenizer: AllowOtherTokenizer = False,
) -> None:
    """Fine-tune on GLUE tasks, and print the table of their scores."""
    backend, why = choose_backend(
        backend, os.environ, None if is_remote(output) else next(Path(output).glob("*/seed-*"), None)
    )
    os.environ["KERAS_BACKEND"] = backend
    _log.info(f"backend: {backend} ({why})")
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
    print("\n".join(table_lines(run_glue(options))))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code when called with argv, else exits."""
    return run_app(app, "glue", argv)


if __name__ == "__main__":
    main()
