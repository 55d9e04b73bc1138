"""pretrain convert SOURCE DEST --format hf: a checkpoint of any supported format, written in another.

The command lines of kamalkraj/ALBERT-TF2.0's converter work too:
pretrain convert --tf_hub_path=base/ --model_type=albert --version=2 --model=base
pretrain convert --weights_path=base/ --weights_type=tar --model_type=albert_encoder --version=2 --model=base
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from nlpdata.cli.parameters import with_common
from nlpdata.cli.results import Summary
from nlpdata.cli.screens import GroupedCommand
from nlpdata.errors import UsageError
from pretrain.settings.command_line import (
    AllowOtherTokenizer,
    DoLowerCase,
    EncoderOnly,
    Format,
    ImportModules,
    StoredTokenizer,
    option,
    run_app,
)

EXAMPLES = """
pretrain convert run1 base --format hf
pretrain convert albert_base/ base --format h5 --encoder_only
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=GroupedCommand, epilog=EXAMPLES)
@with_common
def convert_command(
    source: Annotated[
        str | None,
        typer.Argument(help="Checkpoint: folder, prefix, file or archive (.zip, .tar.gz).", rich_help_panel="Files"),
    ] = None,
    dest: Annotated[str | None, typer.Argument(help="New folder.", rich_help_panel="Files")] = None,
    format: Format = "",
    model_config: Annotated[
        str | None,
        option(
            "Model", "Architecture, where the source has none: a name or a JSON file.", "--model_config", metavar="PATH"
        ),
    ] = None,
    encoder_only: EncoderOnly = False,
    tokenizer: StoredTokenizer = None,
    do_lower_case: DoLowerCase = None,
    tf_hub_path: Annotated[
        str | None,
        option(
            "Older form", "Module, or folder of it, written into.", "--tf_hub_path", "--weights_path", metavar="PATH"
        ),
    ] = None,
    weights_type: Annotated[
        Literal["tf_hub", "tar"],
        option("Older form", "A module, or a folder with albert_SIZE of Google's archive.", "--weights_type"),
    ] = "tf_hub",
    model_type: Annotated[
        Literal["albert", "albert_encoder"],
        option("Older form", "With heads or without.", "--model_type"),
    ] = "albert",
    version: Annotated[Literal["1", "2"], option("Older form", "Version of the module.", "--version")] = "2",
    model: Annotated[
        Literal["base", "large", "xlarge", "xxlarge"],
        option("Older form", "Size of the model.", "--model"),
    ] = "base",
    import_module: ImportModules = None,
    allow_other_tokenizer: AllowOtherTokenizer = False,
) -> Summary:
    """Convert a checkpoint to another format.

    The source may be of any supported format."""
    from pretrain.converters.convert import convert_hub_module, convert_place

    if tf_hub_path is not None:
        inner = f"albert_{model}" if weights_type == "tar" else ""
        written = convert_hub_module(tf_hub_path, model_type == "albert_encoder", f"albert_{model}_v{version}", inner)
        return Summary("convert", {"written": [written], "format": "h5"}, [f"written: {written}"])
    if not (source and dest and format):
        missing = next(name for name, value in (("SOURCE", source), ("DEST", dest), ("--format", format)) if not value)
        raise UsageError(f"{missing} is missing: pretrain convert SOURCE DEST --format hf")
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
    return Summary("convert", {"written": [dest], "format": format}, [f"written: {dest} ({format})"])


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code when called with argv, else exits."""
    return run_app(app, "convert", argv)


if __name__ == "__main__":
    main()
