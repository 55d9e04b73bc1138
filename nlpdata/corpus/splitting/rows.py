"""Tables as raw documents: the column of the text, each row a document; CSV, TSV and Parquet, by the readers of fine-tuning."""

import logging
import re
from collections import Counter
from collections.abc import Iterator

from nlpdata.corpus.splitting.options import SplittingOptions
from nlpdata.corpus.splitting.passages import Notice, Passage, passages_of
from nlpdata.corpus.types import ByteRange
from nlpdata.errors import DataError, opt
from nlpdata.files.fetching import fetched
from nlpdata.finetuning.datasets import BadRow, refusal
from nlpdata.finetuning.dialects import recognise
from nlpdata.finetuning.tables import MissingColumn, read_table, text_fault

_log = logging.getLogger(__name__)
_LINE_BREAK = re.compile(r"\r\n?|\n")


def read_rows(byte_range: ByteRange, options: SplittingOptions) -> Iterator[Passage | Notice]:
    """The rows of a table. DataError for a row that cannot be used, unless such rows are skipped."""
    file, column = byte_range.file, options.text_field
    path = fetched(file.path)
    form, note = recognise(path, [column], format=options.format)
    if note:
        _log.info(note)
    left_out: Counter[str] = Counter()
    try:
        for item in read_table(path, form, [column]):
            if isinstance(item, BadRow):
                bad: BadRow | None = item
            else:
                line, (value,) = item
                value = "" if value is None else value  # of Parquet
                bad = text_fault(path, line, column, value)
            if bad is None:
                yield from passages_of(_LINE_BREAK.split(value))
            elif options.on_bad_row == "fail":
                raise refusal(bad)
            else:
                left_out[bad.reason] += 1
    except MissingColumn as error:
        raise DataError(f"{error.message.text} Name the column of the text with {opt('text_field')}.") from None
    yield Notice(file.size, documents=left_out)
