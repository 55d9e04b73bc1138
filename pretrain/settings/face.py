"""How the messages of this package's commands spell options that they have, and those that they lack."""

import json
from collections.abc import Collection
from dataclasses import fields

from nlpdata.errors import Spelling
from nlpdata.errors import as_flag as nlpdata_flag
from nlpdata.finetuning.options import FinetuningRequest
from nlpdata.tokenizers import OPTIONS
from pretrain.settings.flags import FIELDS, as_flag

_OF_CONVERT = ("encoder_only", "model_config")
_OF_PREDICT = (
    *("input_format", "delimiter", "encoding", "header"),
    *("text_column", "text_b_column", "choice_columns", "index_column", "label_column"),
)


def face_of(own: Collection[str]) -> Spelling:
    """Spells options as a command of this package has them.

    Of those that it lacks, the tokenizer's are in a file next to it, others are those of create-finetuning, which makes records
    for it, or of pretrain convert, which makes a checkpoint that says all; flags of pretrain run are fields of the configuration.
    What pretrain run predicts for is a --predict_file, and tables that need more options are for pretrain predict.

    Args:
      own: names of its options, with underscores.
    """
    theirs = {each.name for each in fields(FinetuningRequest)}.difference(own)
    paths = {flag.name: flag.fields[0] for flag in FIELDS if flag.name not in own}

    def spelled(field: str, value: object = None) -> str:
        if field == "format" and "export_formats" in own:
            return as_flag("export_formats", value)
        if "predict_file" in own and field == "input":
            return as_flag("predict_file", value)
        if "predict_file" in own and field in _OF_PREDICT:
            return f"{as_flag(field, value)} of pretrain predict"
        if field in theirs and field in OPTIONS:
            return f'"{field}"{"" if value is None else f": {json.dumps(value)}"} in a tokenizer_config.json next to it'
        if field in theirs:
            return f"{nlpdata_flag(field, value)} of nlpdata create-finetuning"
        if field in _OF_CONVERT and field not in own:
            return f"{as_flag(field, value)} of pretrain convert"
        if field in paths:
            return paths[field] if value is None else f"{paths[field]}={value}"
        return as_flag(field, value)

    return spelled
