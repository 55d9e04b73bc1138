"""Data preparation for BERT-family encoders: text to TFRecords.

    import nlpdata
    nlpdata.create_pretraining("data/*.txt", "out/train.tfrecord", "tok/spm.model", max_seq_length=128)
    records = nlpdata.open_records("out/train.tfrecord*")      # len(records), records[0] -> dict of numpy arrays

What is imported from here is loaded when first used, so that `import nlpdata` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nlpdata.corpus.splitting.plan import SplittingResult
    from nlpdata.corpus.splitting.run import split_sentences
    from nlpdata.errors import DataError, NlpdataError, UsageError
    from nlpdata.finetuning.create import create_finetuning
    from nlpdata.finetuning.plan import FinetuningResult
    from nlpdata.pretraining.create import create_pretraining
    from nlpdata.pretraining.plan import CreationResult
    from nlpdata.records.reader import Records, open_records
    from nlpdata.records.verification import VerifyReport, verify
    from nlpdata.reports.making import ReportResult, report
    from nlpdata.tokenizers.interface import Tokenizer, load_tokenizer
    from nlpdata.tokenizers.training.train import TrainingResult, train_tokenizer

_MODULES = {
    "CreationResult": "nlpdata.pretraining.plan",
    "DataError": "nlpdata.errors",
    "FinetuningResult": "nlpdata.finetuning.plan",
    "NlpdataError": "nlpdata.errors",
    "Records": "nlpdata.records.reader",
    "ReportResult": "nlpdata.reports.making",
    "SplittingResult": "nlpdata.corpus.splitting.plan",
    "Tokenizer": "nlpdata.tokenizers.interface",
    "TrainingResult": "nlpdata.tokenizers.training.train",
    "UsageError": "nlpdata.errors",
    "VerifyReport": "nlpdata.records.verification",
    "create_finetuning": "nlpdata.finetuning.create",
    "create_pretraining": "nlpdata.pretraining.create",
    "load_tokenizer": "nlpdata.tokenizers.interface",
    "open_records": "nlpdata.records.reader",
    "report": "nlpdata.reports.making",
    "split_sentences": "nlpdata.corpus.splitting.run",
    "train_tokenizer": "nlpdata.tokenizers.training.train",
    "verify": "nlpdata.records.verification",
}
__all__ = [
    "CreationResult",
    "DataError",
    "FinetuningResult",
    "NlpdataError",
    "Records",
    "ReportResult",
    "SplittingResult",
    "Tokenizer",
    "TrainingResult",
    "UsageError",
    "VerifyReport",
    "create_finetuning",
    "create_pretraining",
    "load_tokenizer",
    "open_records",
    "report",
    "split_sentences",
    "train_tokenizer",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'nlpdata' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
