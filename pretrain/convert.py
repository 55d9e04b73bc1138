"""python -m pretrain.convert SOURCE DEST --format hf: a checkpoint of any supported format, written in another.

The command lines of kamalkraj/ALBERT-TF2.0's converter work too:
python -m pretrain.convert --tf_hub_path=base/ --model_type=albert --version=2 --model=base
python -m pretrain.convert --weights_path=base/ --weights_type=tar --model_type=albert_encoder --version=2 --model=base
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from nlpdata.cli.parameters import with_common
from nlpdata.errors import UsageError
from pretrain.settings.command_line import (
    AllowOtherTokenizer,
    DoLowerCase,
    EncoderOnly,
    Format,
    ImportModules,
    StoredTokenizer,
    run_app,
)

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
@with_common
def convert_command(
    source: Annotated[
        str | None, typer.Argument(help="Checkpoint: folder, prefix, file or archive (.zip, .tar.gz).")
    ] = None,
    dest: Annotated[str | None, typer.Argument(help="New folder.")] = None,
    format: Format = "",
    model_config: Annotated[
        str | None,
        typer.Option(
            "--model_config", "--model-config", help="Architecture, where the source has none: a name or a JSON file."
        ),
    ] = None,
    encoder_only: EncoderOnly = False,
    tokenizer: StoredTokenizer = None,
    do_lower_case: DoLowerCase = None,
    tf_hub_path: Annotated[
        str | None,
        typer.Option("--tf_hub_path", "--weights_path", help="Older form: module, or folder of it, written into."),
    ] = None,
    weights_type: Annotated[
        Literal["tf_hub", "tar"],
        typer.Option("--weights_type", help="Older form: a module, or a folder with albert_SIZE of Google's archive."),
    ] = "tf_hub",
    model_type: Annotated[
        Literal["albert", "albert_encoder"], typer.Option("--model_type", help="Older form: with heads or without.")
    ] = "albert",
    version: Annotated[Literal["1", "2"], typer.Option(help="Older form: version of the module.")] = "2",
    model: Annotated[
        Literal["base", "large", "xlarge", "xxlarge"], typer.Option(help="Older form: size of the model.")
    ] = "base",
    import_module: ImportModules = None,
    allow_other_tokenizer: AllowOtherTokenizer = False,
) -> None:
    """Convert a checkpoint to another format."""
    from pretrain.converters.convert import convert_hub_module, convert_place

    if tf_hub_path is not None:
        inner = f"albert_{model}" if weights_type == "tar" else ""
        written = convert_hub_module(tf_hub_path, model_type == "albert_encoder", f"albert_{model}_v{version}", inner)
        print(f"written: {written}")
        return
    if not (source and dest and format):
        missing = next(name for name, value in (("SOURCE", source), ("DEST", dest), ("--format", format)) if not value)
        raise UsageError(f"{missing} is missing: python -m pretrain.convert SOURCE DEST --format hf")
    convert_place(
        source,
        dest,
        format,
        model_config,
        import_module or (),
        encoder_only=encoder_only,
        tokenizer=tokenizer,
        do_lower_case=do_lower_case,
        allow_other_tokenizer=allow_other_tokenizer,
    )
    print(f"written: {dest} ({format})")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code when called with argv, else exits."""
    return run_app(app, "convert", argv)


if __name__ == "__main__":
    main()
