"""Older options that are not one option here: each is a function from its value to arguments of ours.

Sources: spm_train (google/sentencepiece), create_pretraining_data.py of google-research/albert, of kamalkraj/ALBERT-TF2.0 and of
the TensorFlow Model Garden, and run_race.py of the first. Those that only have another name are in nlpdata.cli.aliases.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass

from nlpdata.errors import UsageError

_log = logging.getLogger(__name__)

_TRUE, _FALSE = {"true", "t", "1", "yes", "y"}, {"false", "f", "0", "no", "n"}
_ALL_LINES = 1 << 62


@dataclass(frozen=True)
class Older:
    """An older option.

    Attributes:
      arguments: its value -> arguments of ours; raises UsageError for what is not possible here.
      is_switch: whether it needs no value; without one it is "true".
    """

    arguments: Callable[[str], list[str]]
    is_switch: bool = False


def parse_bool(name: str, text: str) -> bool:
    """absl's boolean words."""
    if text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    raise UsageError(f"--{name} takes true or false. Received: {text!r}.")


def _noted(note: str, is_switch: bool = False) -> Older:
    """One that has no effect, which is reported."""

    def arguments(value: str) -> list[str]:
        _log.info(note)
        return []

    return Older(arguments, is_switch)


def _fixed(name: str, value: str, instead: str) -> Older:
    """One that has a single value here; any other one is refused with what to do."""
    is_switch = value in ("true", "false")

    def arguments(given: str) -> list[str]:
        same = parse_bool(name, given) == (value == "true") if is_switch else given == value
        if not same:
            raise UsageError(f"--{name}={given} is not possible here, only {value!r}: {instead}.")
        return []

    return Older(arguments, is_switch)


def _renamed(option: str) -> Older:
    return Older(lambda value: [option, value])


# ------------------------------------------------------------------------------------------------------------- spm_train

_IDS = (
    "a vocabulary here has <pad> 0, <unk> 1, [CLS] 2, [SEP] 3, [MASK] 4, and no <s> and </s>, as ALBERT's. Leave it out; a model "
    "that spm_train made with other ids can be given as --tokenizer"
)
_TRAINER = (
    "SentencePiece's default is what is trained. A model that spm_train made otherwise can be given as --tokenizer"
)


def _sample(value: str) -> list[str]:
    return ["--sample-lines", str(_ALL_LINES) if value == "0" else value]


def _symbols(value: str) -> list[str]:
    """Symbols between commas; one that has a comma in it is quoted, as in CSV."""
    fields = re.findall(r'(?:^|,)("(?:[^"]|"")+"(?=,|$)|[^,]*)', value)
    symbols = [field[1:-1].replace('""', '"') if len(field) > 2 and field[0] == '"' else field for field in fields]
    return [word for symbol in symbols for word in ("--user-defined-symbol", symbol)]


def _normalization(value: str) -> list[str]:
    if value in ("nmt_nfkc_cf", "nfkc_cf"):
        return ["--do-lower-case"]
    if value != "nmt_nfkc":
        raise UsageError(
            f"--normalization_rule_name={value} is not possible here, only nmt_nfkc, after ALBERT's own normalisation (NFKD; case "
            "and accents are what --do-lower-case and --keep-accents say), and nmt_nfkc_cf, the same with --do-lower-case."
        )
    _log.info("--normalization_rule_name=nmt_nfkc: case and accents are what --do-lower-case and --keep-accents say")
    return []


_SPM_TRAIN = {
    "input-sentence-size": Older(_sample),
    "max-sentence-length": _renamed("--max-line-bytes"),
    "random-seed": _renamed("--seed"),
    "user-defined-symbols": Older(_symbols),
    "normalization-rule-name": Older(_normalization),
    "shuffle-input-sentence": _fixed(
        "shuffle_input_sentence", "true", "of more lines than --sample-lines, those to train on are drawn at random"
    ),
    **{
        name.replace("_", "-"): _fixed(name, value, _IDS)
        for name, value in {
            "pad_id": "0",
            "unk_id": "1",
            "bos_id": "-1",
            "eos_id": "-1",
            "pad_piece": "<pad>",
            "unk_piece": "<unk>",
            "control_symbols": "[CLS],[SEP],[MASK]",
        }.items()
    },
    **{
        name.replace("_", "-"): _fixed(name, value, _TRAINER)
        for name, value in {
            "input_format": "text",
            "add_dummy_prefix": "true",
            "remove_extra_whitespaces": "true",
            "split_by_whitespace": "true",
            "split_by_unicode_script": "true",
            "split_by_number": "true",
            "split_digits": "false",
            "treat_whitespace_as_suffix": "false",
            "allow_whitespace_only_pieces": "false",
            "byte_fallback": "false",
            "use_all_vocab": "false",
            "vocabulary_output_piece_score": "true",
            "seed_sentencepiece_size": "1000000",
            "shrinking_factor": "0.75",
            "num_sub_iterations": "2",
            "max_sentencepiece_length": "16",
            "required_chars": "",
            "self_test_sample_size": "0",
        }.items()
    },
    "num-threads": _noted(
        "--num_threads has no effect here: the number is fixed, so that every machine makes the same file"
    ),
    "train-extremely-large-corpus": _noted("--train_extremely_large_corpus has no effect here", is_switch=True),
    "bos-piece": _noted("--bos_piece has no effect here: there is no such piece"),
    "eos-piece": _noted("--eos_piece has no effect here: there is no such piece"),
    "minloglevel": Older(lambda value: []),
    "logtostderr": Older(lambda value: [], is_switch=True),  # messages go there anyway
    "alsologtostderr": Older(lambda value: [], is_switch=True),
}

# ---------------------------------------------------------------------------------------------- create_pretraining_data.py


def _permutation(value: str) -> list[str]:
    if parse_bool("do_permutation", value):
        raise UsageError(
            "--do_permutation: records with permuted words, of which a model predicts the order, are not made here. Leave it out: "
            "words are masked."
        )
    return []


def _tokenization(value: str) -> list[str]:
    """--tokenization: the tokenizer's file says what it is."""
    if value not in ("WordPiece", "SentencePiece"):
        raise UsageError(
            f"--tokenization is WordPiece or SentencePiece, as the tokenizer's file is. Received: {value!r}."
        )
    return []


_CREATE_PRETRAINING_DATA = {
    "do-permutation": Older(_permutation, is_switch=True),
    "tokenization": Older(_tokenization),
    "input-file-mode": Older(lambda value: []),  # how the file is opened
}


def _level(level: str) -> Older:
    """run_race's switch that leaves one level of RACE."""
    return Older(lambda value: ["--level", level] if parse_bool(f"{level}_only", value) else [], is_switch=True)


OLDER: dict[tuple[str, str], Older] = {
    **{("train-tokenizer", name): each for name, each in _SPM_TRAIN.items()},
    **{("create-pretraining", name): each for name, each in _CREATE_PRETRAINING_DATA.items()},
    ("create-finetuning", "tokenization"): Older(_tokenization),
    ("create-finetuning", "high-only"): _level("high"),
    ("create-finetuning", "middle-only"): _level("middle"),
}
"""(command, name without dashes, with hyphens) -> the option."""
