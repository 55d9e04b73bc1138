"""pretrain export MODEL_DIR DEST --format savedmodel: a run's newest or best checkpoint, for others to read."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from nlpdata.cli.parameters import with_common
from nlpdata.cli.results import Summary
from nlpdata.cli.screens import GroupedCommand
from nlpdata.errors import UsageError
from nlpdata.files.unpacking import shown, unpacked
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
from pretrain.tasks.metrics import BETTER

_log = logging.getLogger("pretrain.export")

EXAMPLES = """
pretrain export run2 model --format savedmodel
pretrain export run2 model --format hf --which best
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=GroupedCommand, epilog=EXAMPLES)
@with_common
def export_command(
    model_dir: Annotated[str, typer.Argument(help="Folder of a run.", rich_help_panel="Files")],
    dest: Annotated[str, typer.Argument(help="New folder.", rich_help_panel="Files")],
    format: Format = "savedmodel",
    which: Annotated[Literal["newest", "best"], option("Model", "Checkpoint of the run.", "--which")] = "newest",
    encoder_only: EncoderOnly = False,
    tokenizer: StoredTokenizer = None,
    do_lower_case: DoLowerCase = None,
    import_module: ImportModules = None,
    allow_other_tokenizer: AllowOtherTokenizer = False,
) -> Summary:
    """Write a run's checkpoint in the format of another tool."""
    from pretrain.converters import places
    from pretrain.converters.convert import convert_place

    folder = find_checkpoint(unpacked(places.find(model_dir)), best=which == "best")
    convert_place(
        str(folder),
        dest,
        format,
        import_modules=import_module or (),
        encoder_only=encoder_only,
        tokenizer=tokenizer,
        do_lower_case=do_lower_case,
        allow_other_tokenizer=allow_other_tokenizer,
    )
    checkpoint = shown(str(folder))
    facts = {"checkpoint": checkpoint, "written": [dest], "format": format}
    return Summary("export", facts, [f"checkpoint: {checkpoint}", f"written: {dest} ({format})"])


def find_checkpoint(model_dir: Path, best: bool) -> Path:
    """The folder of a run's newest or best checkpoint. UsageError where the run has none."""
    from pretrain.converters import native

    own = native.locate_info(model_dir)
    newest = native.locate(model_dir) if own else None
    if own is None or newest is None:
        raise UsageError(
            f"{model_dir}: not the folder of a run: it has no checkpoints/step-... For other checkpoints: "
            "pretrain convert."
        )
    if not best:
        return newest
    trainer = native.stored_trainer(own[1])
    subdir = trainer.get("best_checkpoint_export_subdir")
    if subdir and not (model_dir / subdir).resolve().is_relative_to(model_dir.resolve()):
        raise UsageError(
            f"{model_dir}: says that its best checkpoint is in {subdir!r}, outside of it. If that is right: pretrain "
            "convert FOLDER DEST."
        )
    found = native.locate(model_dir / subdir) if subdir else None
    if found is None:
        why = f"{model_dir / subdir} holds none yet" if subdir else "trainer.best_checkpoint_export_subdir was not set"
        raise UsageError(f"{model_dir}: this run kept no best checkpoint: {why}. Use --which newest.")
    better, metric = trainer.get("best_checkpoint_metric_comp"), str(trainer.get("best_checkpoint_eval_metric"))
    if better and BETTER.get(metric, better) != better:
        _log.warning(
            f"{found} was kept for a {better} {metric}, and a {BETTER[metric]} one is better: it is the worst "
            "checkpoint. Use --which newest, or train on without trainer.best_checkpoint_metric_comp."
        )
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code when called with argv, else exits."""
    return run_app(app, "export", argv)


if __name__ == "__main__":
    main()
