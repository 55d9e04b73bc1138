"""What `nlpdata report` takes, on the command line and in Python."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated

from nlpdata.files import PathName, PathNames
from nlpdata.options import LocalArguments, option

if TYPE_CHECKING:
    from nlpdata.tokenizers import TokenizerSource


@dataclass(frozen=True)
class ReportRequest(LocalArguments):
    """What a report is made of. UsageError for a value that is wrong."""

    input: Annotated[
        PathNames,
        "What to report on: text files, record files, a meta file or a folder of these; model_dirs of runs.",
    ]
    output: Annotated[PathName, "The page, e.g. report.html; next to it goes report.md."]
    tokenizer: "TokenizerSource | None" = option(
        None, "Tokenizer file whose tokens are counted (text).  [default: none; of records the one of the meta file]"
    )
    _: KW_ONLY
    evaluation: PathNames | None = option(
        None,
        "Files or folders of evaluation sets that the text must not hold, e.g. glue/MRPC. Repeat it, or use commas, for several "
        "(text).",
    )
    ngram: int = option(
        13,
        "Words in a row that an evaluation set and the text must share; at most 8 in shorter rows.",
        least=3,
        most=100,
    )
    limit: int | None = option(
        None, "Read a sample of at most this many documents or records.  [default: all]", least=1, most=1 << 40
    )
    text_key: str | None = option(None, "Key of the text, where the corpus is JSON lines.")
    overwrite: bool = option(False, "Replace an older report of the same name.")
    progress: bool = option(False, "Show progress on standard error.", flag="")
