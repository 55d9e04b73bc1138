"""The command line: options in, one function call, a short summary out. Heavy modules are imported by their command.

`nlpdata.cli.program` has the exit codes.
"""

import itertools
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from functools import partial
from typing import Annotated, Any, cast

import typer

from nlpdata.cli import summaries
from nlpdata.cli.aliases import rewrite
from nlpdata.cli.groups import group_of_field
from nlpdata.cli.parameters import with_common, with_options
from nlpdata.cli.parsing import call_app
from nlpdata.cli.program import find_modules_here, run_program
from nlpdata.cli.results import Summary
from nlpdata.cli.runners import COMMANDS, LOCAL, function_of
from nlpdata.cli.screens import GroupedCommand, GroupedCommands
from nlpdata.corpus.splitting.options import LocalSplittingRequest
from nlpdata.errors import BEGINS_ANEW, RESUMES, UsageError, as_flag, opt
from nlpdata.finetuning.options import LocalFinetuningRequest
from nlpdata.options import BeamArguments, help_of
from nlpdata.pretraining.options import LocalPretrainingRequest
from nlpdata.reports.options import ReportRequest
from nlpdata.tokenizers.training.options import LocalTrainingRequest

app = typer.Typer(
    cls=GroupedCommands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Data preparation for BERT-family encoders: text to TFRecords.",
    epilog="""
    nlpdata train-tokenizer 'data/*.txt' --output tok/spm
    nlpdata create-pretraining 'data/*.txt' --tokenizer tok/spm.model \\
        --output out/train.tfrecord
    nlpdata create-pretraining --help
    nlpdata --version
    """,
)

Records = Annotated[
    list[str],
    typer.Argument(metavar="FILE...", help="Record files: paths or quoted patterns.", rich_help_panel="Input"),
]
Runner = Annotated[
    str,
    typer.Option(
        help="local, DirectRunner, DaskRunner, FlinkRunner, SparkRunner or DataflowRunner; what follows `--` goes to a Beam "
        "runner as it is.",
        rich_help_panel=group_of_field("runner"),
    ),
]
BeamArgs = Annotated[list[str] | None, typer.Option("--beam-arg", hidden=True)]

_REQUESTS = (LocalSplittingRequest, LocalTrainingRequest, LocalPretrainingRequest, LocalFinetuningRequest)
_NAMES = {
    each.name: each.metadata["flag"] for request in _REQUESTS for each in fields(request) if each.metadata.get("flag")
}
_RESUMABLE = ("split-sentences", "create-pretraining", "create-finetuning")


def _command(name: str, examples: str) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    """Makes a function a command; its docstring is the help, its first sentence the summary."""
    return app.command(name, cls=GroupedCommand, epilog=examples)


@_command(
    "split-sentences",
    """
    nlpdata split-sentences 'raw/*.html' --output corpus/pages.txt
    nlpdata split-sentences 'raw/*.jsonl' --text-field body \\
        --output corpus/texts.txt --deduplicate-documents
    """,
)
@with_common
@with_options(LocalSplittingRequest, BeamArguments)
def split_sentences_command(
    quiet: bool = False, runner: Runner = LOCAL, beam_arg: BeamArgs = None, **given: Any
) -> Summary:
    """Make a corpus of raw documents, one sentence a line.

    It reads text, Markdown, HTML, JSON lines and tables, and writes a blank line between documents."""
    result = _call("split-sentences", LocalSplittingRequest, runner, beam_arg, {**given, "progress": not quiet})
    return result if isinstance(result, Summary) else summaries.of_splitting(result)


@_command(
    "train-tokenizer",
    """
    nlpdata train-tokenizer 'data/*.txt' --output tok/spm
    nlpdata train-tokenizer data/*.txt --type wordpiece --vocab-size 8000 \\
        --output tok/vocab
    """,
)
@with_common
@with_options(LocalTrainingRequest, BeamArguments)
def train_tokenizer_command(
    quiet: bool = False, runner: Runner = LOCAL, beam_arg: BeamArgs = None, **given: Any
) -> Summary:
    """Train a vocabulary on a corpus."""
    result = _call("train-tokenizer", LocalTrainingRequest, runner, beam_arg, {**given, "progress": not quiet})
    return result if isinstance(result, Summary) else summaries.of_training(result)


@_command(
    "create-pretraining",
    """
    nlpdata create-pretraining 'data/*.txt' --tokenizer tok/spm.model \\
        --output out/train.tfrecord
    nlpdata create-pretraining 'data/*.txt' --tokenizer tok/vocab.txt \\
        --output out/train.tfrecord --objective nsp --max-seq-length 128 \\
        --masking dynamic --eval-fraction 0.05
    """,
)
@with_common
@with_options(LocalPretrainingRequest, BeamArguments)
def create_pretraining_command(
    quiet: bool = False, runner: Runner = LOCAL, beam_arg: BeamArgs = None, **given: Any
) -> Summary:
    """Make pretraining records of a corpus.

    It masks words, and makes pairs of segments: in their order or swapped (sop), with the next text or another one (nsp), or
    none."""
    result = _call("create-pretraining", LocalPretrainingRequest, runner, beam_arg, {**given, "progress": not quiet})
    return result if isinstance(result, Summary) else summaries.of_pretraining(result)


@_command(
    "create-finetuning",
    """
    nlpdata create-finetuning --task mrpc --input glue/MRPC \\
        --tokenizer tok/spm.model --output out/mrpc
    nlpdata create-finetuning --task pair --input pairs.csv \\
        --text-column question --text-b-column answer --label-column good \\
        --tokenizer tok/spm.model --output out/pairs --eval-fraction 0.1
    """,
)
@with_common
@with_options(LocalFinetuningRequest, BeamArguments)
def create_finetuning_command(
    quiet: bool = False, runner: Runner = LOCAL, beam_arg: BeamArgs = None, **given: Any
) -> Summary:
    """Make fine-tuning records of a dataset.

    Datasets: GLUE, XNLI, PAWS-X, IMDB, SQuAD, a prepared TFDS set, or your own files."""
    result = _call("create-finetuning", LocalFinetuningRequest, runner, beam_arg, {**given, "progress": not quiet})
    return result if isinstance(result, Summary) else summaries.of_finetuning(result)


def _call(command: str, request_class: Any, runner: str, beam_args: Sequence[str] | None, given: dict[str, Any]) -> Any:
    """Calls the function of a command on a runner. Its result; of a dry run, the summary of it."""
    given = _arguments(request_class, given)
    dry_run = given.get("dry_run", False)
    result = _function(command, runner, given, list(beam_args or []))(**given)
    if not dry_run:
        return result
    if runner == LOCAL:
        return summaries.of_estimate(command, result)
    return Summary(command, {"dry_run": True, "job": result}, json.dumps(result, indent=2).splitlines())


def _arguments(request_class: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a function; FILE arguments are input, too. UsageError where one is missing."""
    given["input"] = [*(given["input"] or []), *(given.pop("more") or [])] or None
    given = {name: value for name, value in given.items() if value is not None}
    for each in fields(request_class):
        if each.init and each.default is MISSING and each.name not in given:
            raise UsageError(f"{opt(each.name)} is missing. {help_of(each)}")
    return given


def _function(command: str, runner: str, given: dict[str, Any], beam_args: list[str]) -> Callable[..., Any]:
    """The function of a command on a runner. Takes the arguments that it does not have out of `given`."""
    if runner == LOCAL:
        dry_run = given.pop("dry_run")
        if beam_args:
            raise UsageError(
                f"what follows `--` is for a Beam runner, and {opt('runner')} is local. Received: {' '.join(beam_args)}. "
                f"Name a {opt('runner')}, or leave it out; input files go before `--`."
            )
        return function_of(command, LOCAL, dry_run)
    if "workers" in given:
        raise UsageError(
            f"{opt('workers')} is for {opt('runner', LOCAL)}. Received: {opt('runner', runner)}, whose own options follow "
            "`--`, e.g. -- --direct_running_mode=multi_processing --direct_num_workers=4."
        )
    return partial(function_of(command, runner), runner=runner, beam_args=beam_args)


@_command("inspect", "nlpdata inspect out/train.tfrecord* --limit 1")
@with_common
def inspect_command(
    files: Records,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Number of records to show.", rich_help_panel="Input")
    ] = 3,
    first: Annotated[
        int, typer.Option(min=0, help="Number of the first record to show, from 0.", rich_help_panel="Input")
    ] = 0,
    tokenizer: Annotated[
        str | None, typer.Option(help="Tokenizer file, if there is no meta file.", rich_help_panel="Input")
    ] = None,
    quiet: bool = False,
) -> Summary:
    """Show a few records in words."""
    from nlpdata.execution.executor import Progress
    from nlpdata.records.inspection import inspect_records
    from nlpdata.records.reader import find_records, stored_bytes

    progress = Progress("opening", stored_bytes(find_records(files)), quiet)
    shown = inspect_records(files, tokenizer=tokenizer, limit=limit, first=first, on_bytes=progress.add)
    progress.close()
    return Summary("inspect", {"text": shown}, [shown])


@_command("verify", "nlpdata verify out/train.tfrecord*")
@with_common
def verify_command(files: Records, quiet: bool = False) -> Summary:
    """Check record files: checksums, counts, shapes, ids, masks, labels."""
    from nlpdata.execution.executor import Progress
    from nlpdata.records.reader import find_records, stored_bytes
    from nlpdata.records.verification import verify

    progress = Progress("checking", stored_bytes(find_records(files)), quiet)
    found = verify(files, progress.add)
    progress.close()
    return summaries.of_verification(found)


@_command(
    "report",
    """
    nlpdata report 'data/*.txt' --tokenizer tok/spm.model --output corpus.html
    nlpdata report 'data/*.txt' --evaluation glue/MRPC --output corpus.html
    nlpdata report out/train.meta.json --output records.html
    nlpdata report run1 run2 --output runs.html
    """,
)
@with_common
@with_options(ReportRequest)
def report_command(quiet: bool = False, **given: Any) -> Summary:
    """Make a page about a corpus, about records or about runs.

    It shows lengths, scripts, tokens, masks, labels, what is repeated or left out, and text of evaluation sets in the corpus;
    of runs their curves, evaluations and settings next to each other."""
    from nlpdata.reports.making import report

    return summaries.of_report(report(**_arguments(ReportRequest, {**given, "progress": not quiet})))


def _rewrite(argv: list[str]) -> list[str]:
    """Applies the alias table to the arguments of the command."""
    at = next((i for i, word in enumerate(argv) if not word.startswith("-")), None)
    if at is None or argv[at] not in _commands():
        return argv
    options = [p for p in _commands()[argv[at]].params if p.param_type_name == "option"]
    given = argv[at + 1 :]
    foreign: list[str] = []
    if argv[at] in COMMANDS and "--" in given:
        cut = given.index("--")
        given, foreign = given[:cut], [f"--beam-arg={word}" for word in given[cut + 1 :]]
    names = {name.lstrip("-") for option in options for name in [*option.opts, *option.secondary_opts]}
    booleans = {option.opts[0].lstrip("-") for option in options if option.secondary_opts}
    return argv[: at + 1] + rewrite(argv[at], given, frozenset(booleans), frozenset(names)) + foreign


def _commands() -> dict[str, Any]:
    """The commands as Typer's parser has them."""
    return cast(Any, typer.main.get_command(app)).commands


def option_names(command: str) -> set[str]:
    """The options of a command, older spellings left out, with their hyphens."""
    options = _commands()[command].params
    return {name for option in options for name in [*option.opts, *option.secondary_opts] if name.startswith("--")}


def _as_flag(field: str, value: object = None) -> str:
    """An option in a message, under its name on the command line."""
    return as_flag(_NAMES.get(field, field), value)


def _what_is_left(argv: list[str]) -> str:
    """What an interruption leaves of a command."""
    if "--dry-run" in argv:
        return ""
    if _on_beam(argv):
        return f" {BEGINS_ANEW}."
    return f" {RESUMES}." if argv[:1] and argv[0] in _RESUMABLE else ""


def _on_beam(argv: list[str]) -> bool:
    """True if --runner names another than the local one."""
    own = argv[: argv.index("--")] if "--" in argv else argv
    named = [word.removeprefix("--runner=") for word in own if word.startswith("--runner=")]
    named += [value for word, value in itertools.pairwise(own) if word == "--runner"]
    return any(name != LOCAL for name in named)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code when called with argv, else exits."""
    given = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        find_modules_here()
    code = run_program("nlpdata", given, _run, _as_flag, left=_what_is_left(given))
    if argv is None:
        sys.exit(code)
    return code


def _run(argv: list[str]) -> None:
    call_app(app, _rewrite(argv), "nlpdata")
