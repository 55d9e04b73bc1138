"""The command line: options in, one function call, a short summary out. Heavy modules are imported by their command.

Exit codes: 0 done; 1 data, disk or verification faults; 2 wrong options, patterns that match nothing, outputs that
exist; 130 interrupted; 143 terminated.
"""

import contextlib
import inspect
import itertools
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Annotated, Literal

import typer

from nlpdata.cli import summaries
from nlpdata.cli.aliases import rewrite
from nlpdata.cli.parsing import call_app
from nlpdata.cli.runners import COMMANDS, LOCAL, function_of
from nlpdata.errors import BEGINS_ANEW, RESUMES, NlpdataError, UsageError, as_flag
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.options import ACCEPT_LOSS_HELP
from nlpdata.pretraining.options import PretrainingOptions

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Data preparation for BERT-family encoders: text to TFRecords.",
)

Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", help="Text files: paths or quoted patterns, one sentence a line; GLOB@2 weighs them."),
]
MoreInputs = Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", help="More input files.")]
Records = Annotated[list[str], typer.Argument(metavar="FILE...", help="Record files: paths or patterns.")]
Workers = Annotated[int | None, typer.Option(help="Processes.  [default: one a core]")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an older result of the same name.")]
Lower = Annotated[bool | None, typer.Option("--do-lower-case/--no-do-lower-case", help="Lower-case the text.")]
Accents = Annotated[bool | None, typer.Option("--keep-accents/--no-keep-accents", help="Keep accents.")]
DigitComma = Annotated[
    bool | None,
    typer.Option("--digit-comma/--no-digit-comma", help="Split pieces such as '9,' (ALBERT vocabularies)."),
]
Runner = Annotated[
    str, typer.Option(help="local, DirectRunner, DaskRunner, FlinkRunner, SparkRunner or DataflowRunner.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the job of a Beam runner, and run nothing.")]
BeamArgs = Annotated[list[str] | None, typer.Option("--beam-arg", hidden=True)]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


_RESUMABLE = ("create-pretraining", "create-finetuning")


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _with_fields(options_class):
    """Adds the fields of an options dataclass to a command's signature as options, with their help."""

    def decorate(function):
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        for option in fields(options_class):
            assert option.default is not MISSING
            name = option.name.replace("_", "-")
            switch = bool in (option.type, *getattr(option.type, "__args__", ()))
            flags = (f"--{name}/--no-{name}",) if switch else (f"--{name}",)
            annotation = Annotated[option.type, typer.Option(*flags, help=option.metadata["help"])]
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(option.name, kind, default=option.default, annotation=annotation))
        function.__signature__ = signature.replace(parameters=parameters)
        function.__annotations__ = {p.name: p.annotation for p in parameters}
        return function

    return decorate


def _inputs(given: Sequence[str] | None, more: Sequence[str] | None) -> list[str]:
    patterns = [*(given or []), *(more or [])]
    if not patterns:
        raise UsageError("--input is missing: name text files, e.g. --input 'data/*.txt'.")
    return patterns


def _required(name: str, value, example: str):
    if value is None:
        raise UsageError(f"--{name} is missing, e.g. --{name} {example}.")
    return value


@app.command("train-tokenizer")
def train_tokenizer_command(
    more: MoreInputs = None,
    *,
    input: Inputs = None,
    output: Annotated[str | None, typer.Option(help="Path of the files without suffix, e.g. tok/spm.")] = None,
    vocab_size: Annotated[int, typer.Option(help="Entries, special ones included.")] = 30000,
    type: Annotated[str, typer.Option(help="unigram, bpe or wordpiece.")] = "unigram",
    character_coverage: Annotated[float, typer.Option(help="Share of the text's characters to cover.")] = 0.99995,
    do_lower_case: Annotated[
        bool, typer.Option("--do-lower-case/--no-do-lower-case", help="Lower-case the text.")
    ] = True,
    keep_accents: Annotated[bool, typer.Option("--keep-accents/--no-keep-accents", help="Keep accents.")] = False,
    user_defined_symbol: Annotated[
        list[str] | None, typer.Option(help="A piece of its own, repeatable.  [default: ALBERT's eight]")
    ] = None,
    sample_lines: Annotated[int, typer.Option(help="Train on so many lines at most, drawn at random.")] = 10_000_000,
    max_line_bytes: Annotated[int, typer.Option(help="Leave out longer lines.")] = 4192,
    hard_vocab_limit: Annotated[
        bool, typer.Option("--hard-vocab-limit/--no-hard-vocab-limit", help="Fail if the corpus fills fewer entries.")
    ] = True,
    invalid_utf8: Annotated[
        Literal["fail", "replace", "skip"], typer.Option(help="What to do about bytes that are not UTF-8.")
    ] = "fail",
    text_key: Annotated[str | None, typer.Option(help="Input is JSON lines; the text is under this key.")] = None,
    accept_loss: Annotated[bool, typer.Option("--accept-loss", help=ACCEPT_LOSS_HELP)] = False,
    seed: Annotated[int, typer.Option(help="Seed of the sampling.")] = 12345,
    workers: Workers = None,
    overwrite: Overwrite = False,
    runner: Runner = LOCAL,
    dry_run: DryRun = False,
    beam_arg: BeamArgs = None,
) -> None:
    """Train a vocabulary on a corpus.

    What follows `--` goes to the Beam runner as it is.
    """
    from nlpdata.tokenizers.training.train import ALBERT_SYMBOLS

    train_tokenizer, extra = _executor("train-tokenizer", runner, workers, dry_run, beam_arg or [])
    result = train_tokenizer(
        _inputs(input, more),
        _required("output", output, "tok/spm"),
        vocab_size=vocab_size,
        type=type,
        character_coverage=character_coverage,
        do_lower_case=do_lower_case,
        keep_accents=keep_accents,
        user_defined_symbols=ALBERT_SYMBOLS if user_defined_symbol is None else user_defined_symbol,
        sample_lines=sample_lines,
        max_line_bytes=max_line_bytes,
        seed=seed,
        hard_vocab_limit=hard_vocab_limit,
        invalid_utf8=invalid_utf8,
        text_key=text_key,
        accept_loss=accept_loss,
        overwrite=overwrite,
        log=_log,
        **extra,
    )
    if dry_run:
        print(json.dumps(result, indent=2))
        return
    for line in result.warnings:
        _log(f"warning: {line}")
    _table(summaries.training_rows(result))
    print("written:", ", ".join(result.files))


@app.command("create-pretraining")
@_with_fields(PretrainingOptions)
def create_pretraining_command(
    more: MoreInputs = None,
    *,
    input: Inputs = None,
    output: Annotated[str | None, typer.Option(help="The record file, e.g. out/train.tfrecord.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="A SentencePiece .model, a vocab.txt or a folder.")] = None,
    meta: Annotated[str | None, typer.Option(help="The meta file.  [default: <output>.meta.json]")] = None,
    num_shards: Annotated[int | None, typer.Option(help="Record files.  [default: one for each 112 MiB]")] = None,
    do_lower_case: Lower = None,
    keep_accents: Accents = None,
    digit_comma: DigitComma = None,
    workers: Workers = None,
    chunk_size: Annotated[int | None, typer.Option(help="Input bytes of a task; does not change the result.")] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    runner: Runner = LOCAL,
    dry_run: DryRun = False,
    beam_arg: BeamArgs = None,
    **options,
) -> None:
    """Make pretraining records of a corpus: masked words, and sentence order or next sentence.

    What follows `--` goes to the Beam runner as it is.
    """
    create_pretraining, extra = _executor("create-pretraining", runner, workers, dry_run, beam_arg or [])
    result = create_pretraining(
        _inputs(input, more),
        _required("output", output, "out/train.tfrecord"),
        _required("tokenizer", tokenizer, "tok/spm.model"),
        meta=meta,
        num_shards=num_shards,
        chunk_size=chunk_size,
        overwrite=overwrite,
        do_lower_case=do_lower_case,
        keep_accents=keep_accents,
        digit_comma=digit_comma,
        log=_log,
        progress=not quiet,
        **extra,
        **options,
    )
    if dry_run:
        print(json.dumps(result, indent=2))
        return
    _table(summaries.pretraining_rows(result))
    for split, names in result.files.items():
        print(f"written: {_shown(names)}  {result.meta[split]}")


def _shown(names: Sequence[str]) -> str:
    """The files of a split."""
    return names[0] if len(names) == 1 else f"{names[0]} ... ({len(names)} shards)"


def _executor(command: str, runner: str, workers: int | None, dry_run: bool, beam_args: list[str]):
    """The function that does a command on a runner, and its arguments that the other runners do not have."""
    if runner == LOCAL:
        if dry_run:
            raise UsageError("--dry-run shows the job of a Beam runner: name one with --runner.")
        if beam_args:
            raise UsageError(
                f"what follows `--` is for a Beam runner, and --runner is local. Received: {' '.join(beam_args)}. "
                "Name a --runner, or leave it out; input files go before `--`."
            )
        return function_of(command, LOCAL), {"workers": workers}
    if workers is not None:
        raise UsageError(
            f"--workers is for --runner local. Received: --runner {runner}, whose own options follow `--`, e.g. -- "
            "--direct_running_mode=multi_processing --direct_num_workers=4."
        )
    return function_of(command, runner), {"runner": runner, "beam_args": beam_args, "dry_run": dry_run}


@app.command("create-finetuning")
@_with_fields(FinetuningOptions)
def create_finetuning_command(
    more: MoreInputs = None,
    *,
    input: Annotated[list[str] | None, typer.Option("--input", help="The dataset's folder or file.")] = None,
    output: Annotated[str | None, typer.Option(help="The folder of the records, e.g. out/mrpc.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="A SentencePiece .model, a vocab.txt or a folder.")] = None,
    meta: Annotated[str | None, typer.Option(help="The meta file.  [default: <output>/meta.json]")] = None,
    train_output: Annotated[str | None, typer.Option(help="Training records under another name.")] = None,
    dev_output: Annotated[str | None, typer.Option(help="Dev records under another name.")] = None,
    test_output: Annotated[str | None, typer.Option(help="Test records under another name.")] = None,
    num_shards: Annotated[
        int | None, typer.Option(help="Training record files.  [default: one for each 112 MiB]")
    ] = None,
    do_lower_case: Lower = None,
    keep_accents: Accents = None,
    digit_comma: DigitComma = None,
    workers: Workers = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    runner: Runner = LOCAL,
    dry_run: DryRun = False,
    beam_arg: BeamArgs = None,
    **options,
) -> None:
    """Make fine-tuning records: GLUE, XNLI, PAWS-X, IMDB, SQuAD, a TFDS set, or your own files.

    What follows `--` goes to the Beam runner as it is.
    """
    create_finetuning, extra = _executor("create-finetuning", runner, workers, dry_run, beam_arg or [])
    result = create_finetuning(
        [*(input or []), *(more or [])],
        output,
        tokenizer,
        meta=meta,
        train_output=train_output,
        dev_output=dev_output,
        test_output=test_output,
        num_shards=num_shards,
        overwrite=overwrite,
        do_lower_case=do_lower_case,
        keep_accents=keep_accents,
        digit_comma=digit_comma,
        log=_log,
        progress=not quiet,
        **extra,
        **options,
    )
    if dry_run:
        print(json.dumps(result, indent=2))
        return
    for split, about in result.counters.items():
        _table(summaries.finetuning_rows(split, about["counters"]))
    for names in result.files.values():
        print("written:", _shown(names))
    print("written:", result.meta)


@app.command("inspect")
def inspect_command(
    files: Records,
    limit: Annotated[int, typer.Option(help="How many records to show.")] = 3,
    first: Annotated[int, typer.Option(help="The first one to show.")] = 0,
    tokenizer: Annotated[str | None, typer.Option(help="Tokenizer file, if there is no meta file.")] = None,
) -> None:
    """Show a few records in words."""
    from nlpdata.records.inspection import inspect_records

    print(inspect_records(files, tokenizer=tokenizer, limit=limit, first=first))


@app.command("verify")
def verify_command(files: Records) -> None:
    """Check record files: checksums, counts, shapes, ids, masks and labels."""
    from nlpdata.records.verification import verify

    report = verify(files)
    print(report)
    if report.faults:
        raise typer.Exit(1)


def _table(rows: Sequence[tuple[str, int]]) -> None:
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value:>14,}")


def _rewrite(argv: list[str]) -> list[str]:
    """Applies the alias table to the arguments of the command."""
    commands = typer.main.get_command(app).commands
    at = next((i for i, word in enumerate(argv) if not word.startswith("-")), None)
    if at is None or argv[at] not in commands:
        return argv
    options = [p for p in commands[argv[at]].params if p.param_type_name == "option"]
    given = argv[at + 1 :]
    foreign: list[str] = []
    if argv[at] in COMMANDS and "--" in given:
        cut = given.index("--")
        given, foreign = given[:cut], [f"--beam-arg={word}" for word in given[cut + 1 :]]
    names = {name.lstrip("-") for option in options for name in [*option.opts, *option.secondary_opts]}
    booleans = {option.opts[0].lstrip("-") for option in options if option.secondary_opts}
    return argv[: at + 1] + rewrite(argv[at], given, frozenset(booleans), frozenset(names)) + foreign


def option_names(command: str) -> set[str]:
    """The options of a command, older spellings left out, with their hyphens."""
    options = typer.main.get_command(app).commands[command].params
    return {name for option in options for name in [*option.opts, *option.secondary_opts] if name.startswith("--")}


def _what_is_left(argv: list[str]) -> str:
    """What an interruption leaves of a command."""
    if _on_beam(argv):
        return f" {BEGINS_ANEW}."
    return f" {RESUMES}." if argv[0] in _RESUMABLE else ""


def _on_beam(argv: list[str]) -> bool:
    """True if --runner names another than the local one."""
    own = argv[: argv.index("--")] if "--" in argv else argv
    named = [word.removeprefix("--runner=") for word in own if word.startswith("--runner=")]
    named += [value for word, value in itertools.pairwise(own) if word == "--runner"]
    return any(name != LOCAL for name in named)


def _terminate(signum, frame):
    raise SystemExit(128 + signum)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code when called with argv, else exits."""
    given = list(sys.argv[1:] if argv is None else argv)
    code = 0
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, _terminate)
    try:
        call_app(app, _rewrite(given), "nlpdata")
    except NlpdataError as error:
        _log(f"nlpdata: error: {error.spelled(as_flag)}")
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (the reader has gone; nothing more can be said)
        code = 1
    except OSError as error:  # of a place that no step expects to fail
        _log(f"nlpdata: error: {error.strerror or error}" + (f" ({error.filename})" if error.filename else ""))
        code = 1
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    if code in (130, 143):
        _log(f"nlpdata: {'interrupted' if code == 130 else 'terminated'}.{_what_is_left(given)}")
    if argv is None:
        sys.exit(code)
    return code
