"""pretrain predict --model_dir run2 --input texts.csv --output predictions.tsv: what a model predicts.

A sentence model takes texts or pairs, a question answering model questions with contexts, a multiple-choice model these with
choices, a pretrained model texts with [MASK]: from CSV, TSV, JSON lines, Parquet, lines of text, or standard input. A question
answering model also takes SQuAD's .json and the dev or test records of `nlpdata create-finetuning --task squad`, and writes
predictions.json, nbest_predictions.json and null_odds.json for them.
"""

import logging
import os
from collections.abc import Sequence
from typing import Annotated

import typer

from nlpdata.cli.parameters import with_common
from nlpdata.cli.results import Summary
from nlpdata.cli.screens import GroupedCommand
from nlpdata.cli.summaries import of_estimate
from nlpdata.errors import UsageError
from nlpdata.output.estimate import Estimate
from pretrain.settings.backend import set_backend
from pretrain.settings.command_line import AllowOtherTokenizer, Backend, ImportModules, option, run_app
from pretrain.settings.fields import MOST

_log = logging.getLogger("pretrain.predict")

EXAMPLES = """
pretrain predict --model_dir run2 --input texts.csv --output predictions.tsv
pretrain predict --model_dir run2 --input pairs.jsonl --output - \\
    --format jsonl
pretrain predict --model_dir squad --input dev-v2.0.json --output answers
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=GroupedCommand, epilog=EXAMPLES)
@with_common
def predict_command(
    input: Annotated[
        str,
        option(
            "Input",
            "Texts: CSV, TSV, JSON lines, Parquet or lines of text, compressed or not; - is standard input. Questions: "
            "such a table, SQuAD's .json, or its records.",
            "--input",
            metavar="PATH",
        ),
    ],
    output: Annotated[
        str,
        option(
            "Output",
            "File of predictions; - is standard output; with --format squad a folder.",
            "--output",
            metavar="PATH",
        ),
    ],
    model_dir: Annotated[
        str,
        option("Model", "Folder of a run, or checkpoint.", "--model_dir", "--init_checkpoint", metavar="PATH"),
    ],
    format: Annotated[
        str | None,
        option(
            "Output",
            "Format of the predictions: tsv, jsonl, glue or squad.  [default: tsv, or jsonl by the name of the output; for "
            "SQuAD's .json and records squad]",
            "--format",
        ),
    ] = None,
    input_format: Annotated[
        str | None,
        option(
            "Input",
            "csv, tsv, jsonl, parquet or text (one a line).  [default: by the name; of standard input text]",
            "--input_format",
        ),
    ] = None,
    text_column: Annotated[
        str | None,
        option(
            "Input",
            "Column of the text or the question; of choices that of their context.  [default: text, sentence, question, "
            "premise, ...; of choices context, article, ...]",
            "--text_column",
            "--question_column",
        ),
    ] = None,
    text_b_column: Annotated[
        str | None,
        option(
            "Input",
            "Column of the second text or the context; of choices that of their question.  [default: text_b, sentence2, "
            "context, ... if there; of choices question]",
            "--text_b_column",
            "--context_column",
        ),
    ] = None,
    choice_columns: Annotated[
        str | None,
        option(
            "Input",
            "Columns of the choices, comma-separated, or the one with a list of them.  [default: choices, options or endings; "
            "else ending0, ending1, ...]",
            "--choice_columns",
        ),
    ] = None,
    index_column: Annotated[
        str | None,
        option("Input", "Column that names the rows.  [default: index or id, else their number]", "--index_column"),
    ] = None,
    label_column: Annotated[
        str | None,
        option(
            "Input",
            "Column of the labels of texts, or of the right choices, to score the predictions with: a report is written next to "
            "them.",
            "--label_column",
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        option(
            "Input",
            "Character between the columns of CSV and TSV, or its name, e.g. semicolon.  [default: recognised]",
            "--delimiter",
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        option(
            "Input", "Encoding of the input, e.g. cp1252.  [default: UTF-8, or as its first bytes say]", "--encoding"
        ),
    ] = None,
    header: Annotated[
        bool,
        option(
            "Input",
            "The first line of CSV and TSV names the columns; else they are numbered from 0.",
            "--header/--no-header",
            " /--noheader",
        ),
    ] = True,
    max_rows: Annotated[
        int | None,
        option(
            "Input",
            "Take only the first rows, or questions.  [default: all]",
            "--max_rows",
            "--max_predict_samples",
            min=1,
            max=MOST,
        ),
    ] = None,
    on_bad_row: Annotated[
        str,
        option("Input", "A row that cannot be used: fail, or skip and count it.", "--on_bad_row"),
    ] = "fail",
    tokenizer: Annotated[
        str | None,
        option("Model", "Tokenizer file.  [default: the one kept with the model]", "--tokenizer", metavar="PATH"),
    ] = None,
    max_seq_length: Annotated[
        int | None,
        option("How it runs", "Tokens of an example.  [default: the model's]", "--max_seq_length", min=8, max=65536),
    ] = None,
    batch_size: Annotated[
        int,
        option("How it runs", "Examples computed at a time.", "--batch_size", min=1, max=65536),
    ] = 32,
    top_k: Annotated[
        int,
        option("Output", "Pieces for each [MASK].", "--top_k", min=1, max=1000),
    ] = 5,
    overwrite: Annotated[
        bool,
        option("Output", "Replace earlier predictions, once the new ones are complete.", "--overwrite"),
    ] = False,
    dry_run: Annotated[
        bool,
        option(
            "How it runs",
            "Say what would be read and written, with estimates from the first rows. Write nothing.",
            "--dry_run",
        ),
    ] = False,
    backend: Backend = None,
    quiet: bool = False,
    json: bool = False,
    import_module: ImportModules = None,
    allow_other_tokenizer: AllowOtherTokenizer = False,
) -> Summary:
    """Write the predictions of a model.

    A sentence model takes texts or pairs, a question answering model questions with contexts, a multiple-choice model these
    with choices, a pretrained model texts with [MASK]."""
    if json and output == "-":
        raise UsageError("--json prints its object on standard output, and --output - the predictions: name a file.")
    _log.info(set_backend(backend, os.environ))
    from pretrain.prediction.file import predict  # imports Keras

    result = predict(
        model_dir,
        input,
        output,
        format=format,
        input_format=input_format,
        text_column=text_column,
        text_b_column=text_b_column,
        choice_columns=choice_columns,
        index_column=index_column,
        delimiter=delimiter,
        encoding=encoding,
        header=header,
        max_rows=max_rows,
        on_bad_row=on_bad_row,
        tokenizer=tokenizer,
        max_seq_length=max_seq_length,
        batch_size=batch_size,
        top_k=top_k,
        overwrite=overwrite,
        progress=not quiet,
        import_modules=import_module or (),
        allow_other_tokenizer=allow_other_tokenizer,
        label_column=label_column,
        dry_run=dry_run,
    )
    return of_estimate("predict", result) if isinstance(result, Estimate) else Summary("predict", vars(result))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code when called with argv, else exits."""
    return run_app(app, "predict", argv)


if __name__ == "__main__":
    main()
