"""Older spellings of options, rewritten before parsing: one table (command, old name) -> (option, conversion).

Sources: kamalkraj/ALBERT-TF2.0, google-research/bert, google-research/albert, NVIDIA's and the TensorFlow Model
Garden's forks of create_pretraining_data.py, and spm_train. Those that are not one option each are in nlpdata.cli.older.
"""

from collections.abc import Sequence

from nlpdata.cli.older import OLDER, parse_bool
from nlpdata.errors import UsageError, closest
from nlpdata.finetuning.older_flags import finetuning_argv

# (command, old name) -> (new option, None), or for on/off options (None, {value: new arguments})
ALIASES: dict[tuple[str, str], tuple[str | None, dict[bool, list[str]] | None]] = {
    ("create-pretraining", "input-file"): ("--input", None),
    ("create-pretraining", "output-file"): ("--output", None),
    ("create-pretraining", "spm-model-file"): ("--tokenizer", None),
    ("create-pretraining", "sp-model-file"): ("--tokenizer", None),
    ("create-pretraining", "vocab-file"): ("--tokenizer", None),
    ("create-pretraining", "meta-data-file-path"): ("--meta", None),
    ("create-pretraining", "random-seed"): ("--seed", None),
    ("create-pretraining", "ngram"): ("--max-ngram", None),
    ("create-pretraining", "max-ngram-size"): ("--max-ngram", None),
    ("create-pretraining", "random-next-sentence"): (
        None,
        {True: ["--objective", "nsp"], False: ["--objective", "sop"]},
    ),
    ("create-pretraining", "do-whole-word-mask"): (None, {True: ["--whole-word"], False: ["--no-whole-word"]}),
    ("create-pretraining", "gzip-compress"): (None, {True: ["--compression", "gzip"], False: []}),
    ("create-pretraining", "use-v2-feature-names"): (None, {True: ["--feature-names", "v2"], False: []}),
    ("create-pretraining", "alsologtostderr"): (None, {True: [], False: []}),  # progress goes there anyway
    ("create-pretraining", "logtostderr"): (None, {True: [], False: []}),
    ("create-finetuning", "input-data-dir"): ("--input", None),
    ("create-finetuning", "squad-data-file"): ("--input", None),
    ("create-finetuning", "classification-task-name"): ("--task", None),
    ("create-finetuning", "data-dir"): ("--input", None),
    ("create-finetuning", "task-name"): ("--task", None),
    ("create-finetuning", "spm-model-file"): ("--tokenizer", None),
    ("create-finetuning", "sp-model-file"): ("--tokenizer", None),
    ("create-finetuning", "vocab-file"): ("--tokenizer", None),
    ("create-finetuning", "train-data-output-path"): ("--train-output", None),
    ("create-finetuning", "eval-data-output-path"): ("--dev-output", None),
    ("create-finetuning", "test-data-output-path"): ("--test-output", None),
    ("create-finetuning", "meta-data-file-path"): ("--meta", None),
    ("create-finetuning", "output-dir"): ("--output", None),
    ("create-finetuning", "train-file"): ("--input", None),
    ("create-finetuning", "predict-file"): ("--dev-input", None),
    ("create-finetuning", "xnli-language"): ("--language", None),
    ("create-finetuning", "pawsx-language"): ("--language", None),
    ("create-finetuning", "random-seed"): ("--seed", None),
    ("create-finetuning", "gzip-compress"): (None, {True: ["--compression", "gzip"], False: []}),
    ("create-finetuning", "use-v2-feature-names"): (None, {True: ["--feature-names", "v2"], False: []}),
    ("create-finetuning", "alsologtostderr"): (None, {True: [], False: []}),
    ("create-finetuning", "logtostderr"): (None, {True: [], False: []}),
    ("split-sentences", "text-key"): ("--text-field", None),  # as the other commands call it
    ("split-sentences", "text-column"): ("--text-field", None),
    ("train-tokenizer", "input-file"): ("--input", None),
    ("train-tokenizer", "model-prefix"): ("--output", None),
    ("train-tokenizer", "model-type"): ("--type", None),
}


def rewrite(command: str, argv: Sequence[str], booleans: frozenset[str], known: frozenset[str]) -> list[str]:
    """argv with older spellings, underscores and absl's boolean forms rewritten to this command's options.

    Args:
      command: name of the command.
      argv: its arguments.
      booleans: its on/off options, without dashes, e.g. "whole-word".
      known: all its options, without dashes.
    """
    result = []
    switched: dict[str, str] = {}  # our option -> the older switch that stands for it
    rest = list(argv)
    if command in ("create-pretraining", "create-finetuning"):
        rest = _without_vocab_of_model(rest)
    if command == "create-finetuning":
        rest = finetuning_argv(rest)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        negated = name.removeprefix("no-") if name.startswith("no-") else name.removeprefix("no")
        has_hyphens = word.startswith("--") and word != "--"
        if not has_hyphens and not (word.startswith("-") and {name, negated} & _names(command, known)):
            result.append(word)
            continue
        if not equals and rest and rest[0].lower() in ("true", "false") and _is_switch(command, name, booleans):
            raise UsageError(f"{word} {rest[0]}: a switch takes its value after `=`. Write {word}={rest[0]}.")
        if words := _older(command, name, negated, f"{equals}{value}", known, rest):
            if words[0] and _is_switch(command, name, booleans) and switched.setdefault(words[0][0], name) != name:
                raise UsageError(
                    f"--{switched[words[0][0]]} and --{name} exclude each other. Use one of them, or neither."
                )
            result += words[0]
            continue
        option, choice = ALIASES.get((command, name), (None, None))
        _, opposite = ALIASES.get((command, negated), (None, None))
        if choice is None and name not in known and opposite is not None:
            result += opposite[False]
        elif choice is not None:
            result += choice[parse_bool(name, value) if equals else True]
        elif option is not None:
            result += [option, value] if equals else [option]
        elif name in booleans and equals:
            result.append(f"--{name}" if parse_bool(name, value) else f"--no-{name}")
        elif name not in known and negated in booleans:
            result.append(f"--no-{negated}")
        elif name in known or name in ("help", "version"):
            result.append(f"--{name}{equals}{value}")
        else:
            hint = closest(f"--{name}", (f"--{each}" for each in sorted(_names(command, known))))
            raise UsageError(f"no option --{name} in `nlpdata {command}`.{hint} `nlpdata {command} --help` lists them.")
    return result


def _names(command: str, known: frozenset[str]) -> set[str]:
    """All names of options, which the older scripts take with one hyphen, too."""
    return {*known, *(name for owner, name in (*ALIASES, *OLDER) if owner == command)}


def _is_switch(command: str, name: str, booleans: frozenset[str]) -> bool:
    older, choice = OLDER.get((command, name)), ALIASES.get((command, name), (None, None))[1]
    return name in booleans or choice is not None or (older is not None and older.is_switch)


def _older(
    command: str, name: str, negated: str, value: str, known: frozenset[str], rest: list[str]
) -> tuple[list[str]] | None:
    """(the arguments that an option of nlpdata.cli.older stands for,); None where it is none of them.

    Args:
      value: what follows the name, "=" included.
      rest: the words after it, of which its value is taken.
    """
    older, opposite = OLDER.get((command, name)), OLDER.get((command, negated))
    if older is None and opposite is not None and opposite.is_switch and not value and name not in known:
        return (opposite.arguments("false"),)
    if older is None:
        return None
    if not value and not older.is_switch:
        if not rest:
            raise UsageError(f"--{name} needs a value.")
        return (older.arguments(rest.pop(0)),)
    return (older.arguments(value.removeprefix("=") if value else "true"),)


def _without_vocab_of_model(argv: list[str]) -> list[str]:
    """argv without --vocab_file where --spm_model_file is given too: ALBERT's scripts want both, the model says all."""

    def name(word: str) -> str:
        return word.partition("=")[0].replace("_", "-")

    if not {"--spm-model-file", "--sp-model-file"} & set(map(name, argv)):
        return argv
    kept, skip = [], False
    for word in argv:
        if skip:
            skip = False
        elif name(word) == "--vocab-file":
            skip = "=" not in word
        else:
            kept.append(word)
    return kept
