"""The options of create-pretraining: one dataclass that the command line, the function and the meta file all use."""

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from nlpdata.errors import UsageError, opt
from nlpdata.files import PathName, PathNames
from nlpdata.options import (
    ACCEPT_LOSS_HELP,
    MOST_SEED,
    MOST_TOKENS,
    BeamArguments,
    LocalArguments,
    RecordOptions,
    RecordSetArguments,
    check_bounds,
    check_range,
    option,
)
from nlpdata.pretraining.objectives import check_own_options

if TYPE_CHECKING:
    from nlpdata.tokenizers import TokenizerSource

MIN_CHUNK_SIZE = 500  # bytes: each unit of work leaves some small files until the end


@dataclass(frozen=True, kw_only=True)
class PretrainingOptions(RecordOptions):
    """How examples are made from documents. `affects_bytes` in a field's metadata: part of the meta file's options."""

    objective: str = option(
        "sop",
        "sop: sentence order (ALBERT); nsp: next sentence (BERT); none: one segment, masked words only; or your own, as "
        "module:class.",
    )
    masking: Literal["static", "dynamic"] = option(
        "static", "static: masks are in the records; dynamic: the loader masks every epoch anew."
    )
    max_seq_length: int = option(512, "Tokens of an example, [CLS] and [SEP] included.", least=8, most=MOST_TOKENS)
    max_predictions_per_seq: int | None = option(
        None,
        f"Most masked tokens of an example.  [default: {opt('max_seq_length')} times {opt('masked_lm_prob')}, rounded up]",
    )
    masked_lm_prob: float = option(0.15, "Share of the tokens to mask, 0 to 1.")
    max_ngram: int = option(3, "Longest run of words masked together.", least=1, most=64)
    favor_shorter_ngram: bool = option(True, "Draw run lengths n with weight 1/n; else the reverse.")
    whole_word: bool = option(True, "Mask whole words; else single pieces.")
    short_seq_prob: float = option(0.1, "Share of the documents that are cut into shorter examples, 0 to 1.")
    dupe_factor: int | None = option(
        None,
        "Number of times that each document is used, with other masks.  [default: 10; dynamic masking 1]",
        least=1,
        most=1 << 16,
    )
    pack_across_documents: bool = option(False, "Let an example continue in the next document, after a [SEP] (none).")
    nsp_scope: Literal["corpus", "file"] = option("corpus", "Where a random second segment may come from (nsp).")
    eval_fraction: float = option(0.0, "Share of the documents that go to <output>.eval.tfrecord, once each.")
    feature_names: Literal["v1", "v2"] = option("v1", "v1: input_ids, segment_ids; v2: input_word_ids, input_type_ids.")
    compression: Literal["none", "gzip"] = option("none", "Compression of the record files.")
    invalid_utf8: Literal["fail", "replace", "skip"] = option(
        "fail", "What to do about bytes that are not UTF-8: stop, put U+FFFD, or leave the line out."
    )
    accept_loss: bool = option(False, ACCEPT_LOSS_HELP, False)
    text_key: str | None = option(None, "Key of the text, where the input is JSON lines, one document a line.")
    limit_documents: int | None = option(
        None, "Use only the first N documents, in file order.", least=1, most=MOST_SEED
    )
    seed: int = option(12345, "Seed of all random choices.", least=0, most=MOST_SEED)

    def __post_init__(self) -> None:
        check_bounds(self)
        check_range("max_predictions_per_seq", self.max_predictions_per_seq, 1, self.max_seq_length)
        for name, high, inclusive in (
            ("masked_lm_prob", 1, False),
            ("short_seq_prob", 1, True),
            ("eval_fraction", 1, False),
        ):
            value = getattr(self, name)
            if not (0 <= value < high or (inclusive and value == high)) or (name == "masked_lm_prob" and value == 0):
                limit = "(0, 1)" if name == "masked_lm_prob" else f"[0, {high}{']' if inclusive else ')'}"
                raise UsageError(f"{opt(name)} must be in {limit}. Received: {value}.")
        self.check_choices()
        if self.max_predictions_per_seq is None:
            object.__setattr__(self, "max_predictions_per_seq", math.ceil(self.max_seq_length * self.masked_lm_prob))
        if self.dupe_factor is None:
            object.__setattr__(self, "dupe_factor", 10 if self.masking == "static" else 1)
        check_own_options(self)


@dataclass(frozen=True)
class PretrainingRequest(RecordSetArguments, PretrainingOptions):
    """What create-pretraining takes on any runner. UsageError for a value that is wrong."""

    input: Annotated[
        PathNames, "Text files, one sentence a line: paths or quoted patterns, e.g. 'data/*.txt'; GLOB@2 weighs them."
    ]
    output: Annotated[PathName, "Record file, e.g. out/train.tfrecord."]
    tokenizer: Annotated["TokenizerSource", "Tokenizer file, e.g. tok/spm.model or vocab.txt, or a folder with one."]
    _: KW_ONLY
    chunk_size: int | None = option(
        None,
        "Input bytes of a unit of work; they do not change the result.  [default: by the size of the input]",
        least=MIN_CHUNK_SIZE,
        most=1 << 40,
    )
    options: PretrainingOptions = field(init=False, repr=False)


@dataclass(frozen=True)
class LocalPretrainingRequest(LocalArguments, PretrainingRequest):
    """What create-pretraining takes on this machine."""


@dataclass(frozen=True)
class BeamPretrainingRequest(BeamArguments, PretrainingRequest):
    """What create-pretraining takes on a Beam runner."""
