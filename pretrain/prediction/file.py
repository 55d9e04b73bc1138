"""A file in, predictions out: reads the model and the input, checks the output, predicts and writes."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from nlpdata.errors import Message, opt
from nlpdata.execution.executor import Progress
from nlpdata.files import PathName
from nlpdata.files.fetching import fetched, local_only
from nlpdata.files.paths import is_remote
from nlpdata.finetuning.tables import TableForm
from nlpdata.output.estimate import Estimate
from nlpdata.registry import user_modules
from nlpdata.tokenizers import Tokenizer
from pretrain.converters import read_checkpoint
from pretrain.converters.load import load_model
from pretrain.converters.same_tokenizer import own_tokenizer, refuse_other_tokenizer
from pretrain.data.tokenizers import tokenizer_entry
from pretrain.evaluation.squad_answers import Answers
from pretrain.prediction.answer_scoring import AnswerScoring
from pretrain.prediction.batching import Batching
from pretrain.prediction.computation import logits_of
from pretrain.prediction.inputs import RECORDS, SQUAD, Input, form_of_input, open_input
from pretrain.prediction.masks import MaskPredictor, some_masked
from pretrain.prediction.predictor import (
    Facts,
    Predictor,
    facts_of,
    length_of,
    make_predictor,
    refuse_headless,
    warn_of_one_row,
)
from pretrain.prediction.questions import QuestionPredictor, answer_options
from pretrain.prediction.rehearsal import rehearse
from pretrain.prediction.rows import Asked, InputOptions, Row
from pretrain.prediction.scoring import Scoring, scoring_of
from pretrain.prediction.writing import (
    AnswerFiles,
    check_format,
    check_output,
    format_of_name,
    is_standard_output,
    opened,
    row_lines,
    write_answers,
)
from pretrain.settings.data_section import EvalDataConfig

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Predicted:
    """What `predict` has written.

    Attributes:
      output: the file or folder, or "-".
      format: of the predictions.
      rows: predictions.
      seconds: of reading, computing and writing.
      counters: of the rows: "rows" read, "truncated" (with "tokens_truncated"), "empty" and "unmasked" ones, without prediction.
      dropped: rows that cannot be used, by reason (on_bad_row skip).
      scores: metrics of the comparison with the labels of label_column, or with the answers that SQuAD's JSON has; {} without.
    """

    output: str
    format: str
    rows: int
    seconds: float
    counters: Mapping[str, int]
    dropped: Mapping[str, int]
    scores: Mapping[str, float]


def predict(
    model_dir: PathName,
    input: PathName,
    output: PathName,
    *,
    format: str | None = None,
    input_format: str | None = None,
    text_column: str | None = None,
    text_b_column: str | None = None,
    index_column: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool = True,
    on_bad_row: str = "fail",
    tokenizer: PathName | None = None,
    max_seq_length: int | None = None,
    batch_size: int = 32,
    top_k: int = 5,
    overwrite: bool = False,
    progress: bool = False,
    import_modules: Sequence[str] = (),
    allow_other_tokenizer: bool = False,
    label_column: str | None = None,
    choice_columns: str | None = None,
    max_rows: int | None = None,
    dry_run: bool = False,
) -> Predicted | Estimate:
    """Writes the predictions of a model for a file. Memory does not grow with the file, but for SQuAD's JSON and format squad.

    With label_column they are compared with the labels of the file, and a report is written next to the output X.tsv:
    X_report.json, X_report.tsv and X_errors.tsv (pretrain.evaluation.report). Answers are compared with those of SQuAD's JSON.

    Args:
      model_dir: checkpoint of the model, as for pretrain.load.
      input: texts: CSV, TSV, JSON lines, Parquet, or text, one a line, compressed or not; "-" is standard input. For a
        question answering model questions with contexts in such a table, SQuAD's .json, or dev or test records of
        `nlpdata create-finetuning --task squad`. For a multiple-choice model contexts, questions and choices in such a table. For a
        pretrained model texts with [MASK].
      output: file of predictions, "-" for standard output; with format squad a folder, which gets predictions.json,
        nbest_predictions.json and null_odds.json.
      format: tsv, jsonl, glue or squad; default: squad for SQuAD's .json and for records, else jsonl for an output of that
        name, else tsv.
      input_format, text_column, text_b_column, choice_columns, index_column, delimiter, encoding, header, max_rows, on_bad_row:
        see InputOptions.
      tokenizer: tokenizer file; default: the one kept with the model.
      max_seq_length: tokens of an example; default: that of the model's training.
      batch_size: examples computed at a time.
      top_k: pieces for each [MASK].
      overwrite: replace earlier predictions, whole and at the end; else an output that exists is refused.
      progress: show progress on standard error.
      import_modules: modules of the user's own parts that the model's checkpoint may name.
      label_column: column of the labels of texts, or of the right choices, as create-finetuning reads them; default: nothing is
        compared.
      allow_other_tokenizer: accept a tokenizer, or records of one, that is not the model's.
      dry_run: predict for the first rows, and write nothing; the result is an Estimate.

    Raises UsageError where model, input and options do not fit, DataError where a file is damaged.
    """
    options = InputOptions(
        input_format,
        text_column,
        text_b_column,
        index_column,
        delimiter,
        encoding,
        header,
        on_bad_row,
        label_column,
        choice_columns,
        max_rows,
    )
    with user_modules(import_modules):
        checkpoint = read_checkpoint(str(model_dir))
        refuse_headless(checkpoint, str(model_dir))
        warn_of_one_row(checkpoint, str(model_dir))
        facts = facts_of(checkpoint, str(model_dir))
        local_only(output, opt("output"), "Write to this machine, and copy it.")
        if is_remote(input):
            input = fetched(input, neighbours="tfrecord" in str(input))
        path, form = form_of_input(input, options, facts)
        format = format or ("squad" if form.name in (SQUAD, RECORDS) else format_of_name(output))
        check_format(format, facts.head)
        check_output(path, Path(output), format == "squad", overwrite, dry_run)
        scoring: Scoring | AnswerScoring | None = None
        if label_column is not None:
            scoring = scoring_of(facts, Path(output), overwrite)
        length = length_of(facts, max_seq_length)
        own = _tokenizer(facts, path, form, tokenizer, allow_other_tokenizer)
        source = open_input(path, form, options, facts, progress or dry_run)
        answers = answer_options(facts.source, facts.extras, source.negative)
        model = load_model(checkpoint)
        del checkpoint  # the model has its weights
        shown = _Shown(source, quiet=not progress or dry_run)
        batching = Batching(logits_of(model, facts.head), batch_size, length, shown.report)
        predictor = make_predictor(batching, facts, own, top_k=top_k, answers=answers)
        if isinstance(predictor, QuestionPredictor) and source.windows is None:
            _tell_of_windows(predictor, length, facts)
        if dry_run:
            reports = scoring.paths if isinstance(scoring, Scoring) else []
            return rehearse(source, predictor, _results, format, path, Path(output), reports)
        if source.golds is not None and isinstance(predictor, QuestionPredictor):
            scoring = AnswerScoring(source.golds, predictor.with_negative, answers.null_score_diff_threshold)
        count, took = _write(source, predictor, format, Path(output), shown, scoring)
    _report(predictor, source, length)
    scores = scoring.tell() if scoring is not None else {}
    return Predicted(str(output), format, count, took, predictor.counters, source.tally.dropped, scores)


def _tell_of_windows(predictor: QuestionPredictor, length: int, facts: Facts) -> None:
    used = (length, predictor.stride, predictor.longest_question)
    trained = (facts.extras.get(name) for name in ("seq_length", "doc_stride", "max_query_length"))
    _log.info(
        f"windows of at most {length} tokens, a new one every {predictor.stride}; questions of at most "
        f"{predictor.longest_question} tokens" + (": as in the training records" if used == tuple(trained) else "")
    )


def _tokenizer(facts: Facts, path: Path, form: TableForm, given: PathName | None, allow: bool) -> Tokenizer | None:
    """The tokenizer to predict with; of records only whether they were made with the model's is checked."""
    if form.name != RECORDS:
        return own_tokenizer(facts.source, given, allow, facts.rows)
    file, use = tokenizer_entry(EvalDataConfig(input_path=str(path)), "input")
    refuse_other_tokenizer(str(path), use, file, facts.source, allow)
    return None


def _write(
    source: Input,
    predictor: Predictor,
    format: str,
    output: Path,
    shown: "_Shown",
    scoring: Scoring | AnswerScoring | None,
) -> tuple[int, float]:
    """Returns the number of predictions and the seconds that they took."""
    start = time.monotonic()
    if format == "squad":
        assert isinstance(predictor, QuestionPredictor)
        count = _write_answers(_answers(source, predictor, scoring), predictor, output)
    else:
        count = _write_rows(_results(source, predictor, scoring), predictor, format, output, scoring)
    shown.close()
    took = time.monotonic() - start
    rows = f"{count:,} row{'s' if count != 1 else ''}"
    place = "standard output" if is_standard_output(output) else output
    _log.info(f"predictions of {rows} written: {place} ({took:.1f} s, {count / max(took, 1e-9):,.0f} rows/s)")
    return count, took


class _Shown:
    """Shows how much of an input is done, by the lines of the rows that were read and the share of them that was computed."""

    def __init__(self, source: Input, quiet: bool) -> None:
        self._progress = Progress("predict", source.total, quiet=quiet, rate=lambda rows: f"{rows:,.0f} rows/s")
        self._rows = self._line = 0
        if source.windows is None:
            source.rows = self._counted(source.rows)

    def _counted(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            self._rows, self._line = self._rows + 1, row.line
            yield row

    def report(self, done: int, taken: int) -> None:
        if self._rows:
            self._progress(self._line * done // taken, self._rows * done // taken)
        else:  # windows
            self._progress(done)

    def close(self) -> None:
        self._progress.close()


def _answers(
    source: Input, predictor: QuestionPredictor, scoring: Scoring | AnswerScoring | None = None
) -> Iterator[tuple[Asked, Answers]]:
    windows = predictor.windows(source.rows) if source.windows is None else source.windows
    answers = predictor.answers(windows)
    return scoring.watched(answers) if isinstance(scoring, AnswerScoring) else answers


def _results(
    source: Input, predictor: Predictor, scoring: Scoring | AnswerScoring | None = None
) -> Iterator[tuple[Asked, dict]]:
    if isinstance(predictor, QuestionPredictor):
        return predictor.results(_answers(source, predictor, scoring))
    results = predictor(source.rows)
    return some_masked(results, predictor.counters) if isinstance(predictor, MaskPredictor) else results


def _write_rows(
    results: Iterator[tuple[Asked, dict]],
    predictor: Predictor,
    format: str,
    output: Path,
    scoring: Scoring | AnswerScoring | None,
) -> int:
    header, lines_of = row_lines(predictor, format)
    count = 0
    first = list(islice(results, 1))  # where this fails, standard output has no header
    with opened(output) as write:
        if header is not None:
            write(header)
        for asked, result in chain(first, results):
            for line in lines_of(asked.name, result):
                write(line)
            if isinstance(scoring, Scoring):
                scoring.add(asked, result)
            count += 1
    return count


def _write_answers(results: Iterator[tuple[Asked, Answers]], predictor: QuestionPredictor, output: Path) -> int:
    nbest, final, odds = {}, {}, {}
    for asked, each in results:
        nbest[asked.name], final[asked.name], odds[asked.name] = each.nbest, predictor.final(each), each.null_odds
    write_answers(output, AnswerFiles(odds if predictor.with_negative else None, nbest, final))
    return len(final)


def _report(predictor: Predictor, source: Input, length: int) -> None:
    """Reports what was cut, and what has no prediction."""
    counters = predictor.counters
    of_all = f"of {counters['rows']:,} rows"
    what = (
        f"have a question that is longer than {predictor.longest_question} tokens"
        if isinstance(predictor, QuestionPredictor)
        else f"are longer than {length} tokens"
    )
    cut = f" ({counters['tokens_truncated']:,} tokens)" if counters["tokens_truncated"] else ""
    for count, line in (
        (counters["truncated"], f"{what}: their ends were cut{cut}"),
        (counters["empty"], "are empty: they have no prediction"),
        (counters["unmasked"], "have no [MASK] within their length: they have no prediction"),
    ):
        if count:
            _log.info(f"{count:,} {of_all} {line}")
    dropped = source.tally.dropped
    if dropped:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(dropped.items()))
        _log.info(
            Message(
                f"rows that cannot be used and were left out ({opt('on_bad_row')}): {dropped.total():,} ({reasons})"
            )
        )
