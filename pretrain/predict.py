"""python -m pretrain.predict --model_dir run2 --input texts.csv --output predictions.tsv: what a model predicts.

A sentence model takes texts or pairs, a question answering model questions with contexts, a pretrained model texts with [MASK]:
from CSV, TSV, JSON lines, Parquet, lines of text, or standard input. A question answering model also takes SQuAD's .json and
the dev or test records of `nlpdata create-finetuning --task squad`, and writes predictions.json, nbest_predictions.json and
null_odds.json for them.
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
    input: Annotated[
        str,
        typer.Option(
            help="Texts: CSV, TSV, JSON lines, Parquet or lines of text, compressed or not; - is standard input. Questions: "
            "such a table, SQuAD's .json, or its records."
        ),
    ],
    output: Annotated[
        str, typer.Option(help="File of predictions; - is standard output; with --format squad a folder.")
    ],
    model_dir: Annotated[
        str, typer.Option("--model_dir", "--model-dir", "--init_checkpoint", help="Folder of a run, or checkpoint.")
    ],
    format: Annotated[
        str | None,
        typer.Option(
            help="Format of the predictions: tsv, jsonl, glue or squad.  [default: tsv, or jsonl by the name of the output; for "
            "SQuAD's .json and records squad]"
        ),
    ] = None,
    input_format: Annotated[
        str | None,
        typer.Option(
            "--input_format",
            "--input-format",
            help="csv, tsv, jsonl, parquet or text (one a line).  [default: by the name; of standard input text]",
        ),
    ] = None,
    text_column: Annotated[
        str | None,
        typer.Option(
            "--text_column",
            "--text-column",
            "--question_column",
            "--question-column",
            help="Column of the text or the question.  [default: text, sentence, question, premise, ...]",
        ),
    ] = None,
    text_b_column: Annotated[
        str | None,
        typer.Option(
            "--text_b_column",
            "--text-b-column",
            "--context_column",
            "--context-column",
            help="Column of the second text or the context.  [default: text_b, sentence2, context, ... if there]",
        ),
    ] = None,
    index_column: Annotated[
        str | None,
        typer.Option(
            "--index_column",
            "--index-column",
            help="Column that names the rows.  [default: index or id, else their number]",
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            help="Character between the columns of CSV and TSV, or its name, e.g. semicolon.  [default: recognised]"
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(help="Encoding of the input, e.g. cp1252.  [default: UTF-8, or as its first bytes say]"),
    ] = None,
    header: Annotated[
        bool,
        typer.Option(
            "--header/--no-header",
            " /--noheader",
            help="The first line of CSV and TSV names the columns; else they are numbered from 0.",
        ),
    ] = True,
    on_bad_row: Annotated[
        str,
        typer.Option("--on_bad_row", "--on-bad-row", help="A row that cannot be used: fail, or skip and count it."),
    ] = "fail",
    tokenizer: Annotated[
        str | None, typer.Option(help="Tokenizer file.  [default: the one kept with the model]")
    ] = None,
    max_seq_length: Annotated[
        int | None,
        typer.Option(
            "--max_seq_length",
            "--max-seq-length",
            min=8,
            max=65536,
            help="Tokens of an example.  [default: the model's]",
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option("--batch_size", "--batch-size", min=1, max=65536, help="Examples computed at a time.")
    ] = 32,
    top_k: Annotated[int, typer.Option("--top_k", "--top-k", min=1, max=1000, help="Pieces for each [MASK].")] = 5,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace earlier predictions, once the new ones are complete.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    import_module: ImportModules = None,
    allow_other_tokenizer: AllowOtherTokenizer = False,
) -> None:
    """Write the predictions of a model."""
    from pretrain.prediction.file import predict

    predict(
        model_dir,
        input,
        output,
        format=format,
        input_format=input_format,
        text_column=text_column,
        text_b_column=text_b_column,
        index_column=index_column,
        delimiter=delimiter,
        encoding=encoding,
        header=header,
        on_bad_row=on_bad_row,
        tokenizer=tokenizer,
        max_seq_length=max_seq_length,
        batch_size=batch_size,
        top_k=top_k,
        overwrite=overwrite,
        progress=not quiet,
        import_modules=import_module or (),
        allow_other_tokenizer=allow_other_tokenizer,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code when called with argv, else exits."""
    return run_app(app, "predict", argv)


if __name__ == "__main__":
    main()
