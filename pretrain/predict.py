"""python -m pretrain.predict --model_dir run2 --input texts.tsv --output predictions.tsv: what a fine-tuned model predicts.

A sentence model takes texts (.txt, one a line; .tsv with a header; .jsonl); a question answering model SQuAD's .json, or the
dev or test records of `nlpdata create-finetuning --task squad`, and writes predictions.json, nbest_predictions.json and
null_odds.json.
"""

from collections.abc import Sequence
from typing import Annotated

import typer

from nlpdata.cli.parameters import with_common
from pretrain.settings.command_line import AllowOtherTokenizer, ImportModules, run_app

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
@with_common
def predict_command(
    input: Annotated[str, typer.Option(help="Texts: .txt, .tsv or .jsonl. Questions: SQuAD's JSON, or its records.")],
    output: Annotated[str, typer.Option(help="File of predictions; for SQuAD a folder.")],
    model_dir: Annotated[
        str, typer.Option("--model_dir", "--model-dir", "--init_checkpoint", help="Folder of a run, or checkpoint.")
    ],
    format: Annotated[str, typer.Option(help="Format of the predictions: tsv, jsonl or glue.")] = "tsv",
    tokenizer: Annotated[
        str | None, typer.Option(help="Tokenizer file.  [default: the one kept with the model]")
    ] = None,
    batch_size: Annotated[
        int, typer.Option("--batch_size", "--batch-size", min=1, help="Examples computed at a time.")
    ] = 32,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace earlier predictions, once the new ones are complete.")
    ] = False,
    import_module: ImportModules = None,
    allow_other_tokenizer: AllowOtherTokenizer = False,
) -> None:
    """Write the predictions of a fine-tuned model."""
    from pretrain.prediction.file import predict

    predict(
        model_dir,
        input,
        output,
        format=format,
        tokenizer=tokenizer,
        batch_size=batch_size,
        overwrite=overwrite,
        import_modules=import_module or (),
        allow_other_tokenizer=allow_other_tokenizer,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code when called with argv, else exits."""
    return run_app(app, "predict", argv)


if __name__ == "__main__":
    main()
