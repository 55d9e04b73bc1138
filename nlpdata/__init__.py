"""Data preparation for BERT-family encoders: text to TFRecords.

    import nlpdata
    nlpdata.create_pretraining("data/*.txt", "out/train.tfrecord", "tok/spm.model", max_seq_length=128)
    records = nlpdata.open_records("out/train.tfrecord*")      # len(records), records[0] -> dict of numpy arrays

Functions are imported when first used, so that `import nlpdata` costs nothing.
"""

import importlib

_EXPORTS = {
    "create_finetuning": "nlpdata.finetuning.create",
    "create_pretraining": "nlpdata.pretraining.create",
    "open_records": "nlpdata.records.reader",
    "train_tokenizer": "nlpdata.tokenizers.training.train",
    "verify": "nlpdata.records.verification",
}
__all__ = [*_EXPORTS]


def __getattr__(name: str):
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'nlpdata' has no attribute {name!r}")


def __dir__():
    return __all__
