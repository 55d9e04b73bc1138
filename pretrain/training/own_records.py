"""Records that a run makes of text, in its model_dir, before it trains or evaluates on them."""

import contextlib
import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nlpdata.errors import UsageError
from nlpdata.execution.executor import duration
from nlpdata.output import digest
from nlpdata.reports.run_facts import CHECKPOINTS
from pretrain.converters import native
from pretrain.data.corpus import (
    Corpus,
    changes,
    damaged_files,
    find_corpus,
    make_records,
    names_corpus,
    record_files,
    with_records,
)
from pretrain.settings.schema import ExperimentConfig, RuntimeConfig
from pretrain.training.checks import EVALUATIONS
from pretrain.training.cluster import is_chief
from pretrain.training.first_host import FirstHost, showing_signs
from pretrain.training.stages import of_stage
from pretrain.training.waiting import POLL_SECONDS

_log = logging.getLogger(__name__)

FOLDER = "records"  # in the model_dir
_SIGNS = ".at-work"  # of the first of several hosts


@dataclass(frozen=True)
class _Wanted:
    """The records that a data section (`field` of the task) of stage `number` needs."""

    number: int
    field: str
    corpus: Corpus


def with_own_records(configs: Sequence[ExperimentConfig], model_dir: Path, mode: str) -> list[ExperimentConfig]:
    """The configurations of a run's stages with records in the place of text; makes those that are missing.

    The first host makes them, and others wait. Sections of equal text and options share a set.

    Args:
      configs: of the stages.
      model_dir: folder of the run; the records are in its folder `records`.
      mode: as in run_experiment: which sections are used.

    Raises UsageError, DataError; UsageError where a run with checkpoints would train on other text than before.
    """
    wanted = []
    for number, config in enumerate(configs):
        with of_stage(number, config, mode not in EVALUATIONS):
            wanted += [_Wanted(number, field, _corpus(config, field)) for field in _texts(config, mode)]
    made: dict[str, list[str]] = {}
    found, runtime = list(configs), configs[0].runtime
    with _first_host(runtime, model_dir, bool(wanted) and mode != "dry_run") as first:
        for each in wanted:
            config, key = found[each.number], digest(each.corpus.facts)
            if key not in made:
                stage = f"-stage-{each.number + 1}" if each.number and each.field == "train_data" else ""
                stem = model_dir / FOLDER / f"{each.field.removesuffix('_data')}{stage}"
                with of_stage(each.number, config, mode not in EVALUATIONS):
                    made[key] = _records(each, stem, model_dir, first, mode == "dry_run")
            section = with_records(each.corpus, made[key])
            found[each.number] = replace(config, task=replace(config.task, **{each.field: section}))
    return found


@contextlib.contextmanager
def _first_host(runtime: RuntimeConfig, model_dir: Path, makes_records: bool) -> Iterator[FirstHost | None]:
    """None on the host that makes records, which shows that it is at work; on the others, what they see of it."""
    signs = model_dir / FOLDER / _SIGNS
    if not makes_records or runtime.distribution_strategy != "multi_worker_mirrored":
        yield None
    elif is_chief(runtime, os.environ):
        with showing_signs(signs):
            yield None
    else:
        yield FirstHost(signs, runtime.host_timeout)


def _corpus(config: ExperimentConfig, field: str) -> Corpus:
    return find_corpus(getattr(config.task, field), config.task, f"task.{field}")


def _texts(config: ExperimentConfig, mode: str) -> list[str]:
    """The fields of the task whose sections the mode uses, and that name text."""
    fields = [*(() if mode in EVALUATIONS else ("train_data",)), *(() if mode == "train" else ("validation_data",))]
    return [field for field in fields if names_corpus(getattr(config.task, field))]


def _records(wanted: _Wanted, stem: Path, model_dir: Path, first: FirstHost | None, dry_run: bool) -> list[str]:
    """The record files of a text at `stem`, made here or, where there is another host `first`, by that. A dry run makes none."""
    corpus = wanted.corpus
    if first:
        _wait(wanted, stem, model_dir, first)
        return record_files(stem)
    found = changes(corpus, stem)
    if dry_run and found != []:
        raise UsageError(
            f"{corpus.name} names text, of which the run makes records first, in {stem.parent}. A dry run makes none: let nlpdata "
            "create-pretraining make them, whose --dry-run says what that takes, and name them in place of the text."
        )
    damaged = damaged_files(stem) if found == [] else []
    if found == [] and not damaged:
        _log.info(f"{corpus.name}: {stem}.tfrecord was made before, of the same text")
        return record_files(stem)
    if found:
        _refuse_other_text(wanted, stem, model_dir, found)
        _log.warning(f"{corpus.name}: {stem}.tfrecord is made again: {_listed(found)}")
    if damaged:
        _log.warning(f"{corpus.name}: {stem}.tfrecord is made again: {_listed(damaged)} is damaged")
    make_records(corpus, stem)
    return record_files(stem)


def _refuse_other_text(wanted: _Wanted, stem: Path, model_dir: Path, found: list[str]) -> None:
    """UsageError where the run has trained on the records that the text would replace."""
    if wanted.field == "train_data" and native.finished(model_dir / CHECKPOINTS):
        raise UsageError(
            f"{wanted.corpus.name}: the run in {model_dir} was trained on {stem}.tfrecord, and the text is not as it was when "
            f"that was made: {_listed(found)}. Restore it, or use another model_dir; to continue this run on the new text all the "
            f"same, remove {stem.parent}."
        )


def _wait(wanted: _Wanted, stem: Path, model_dir: Path, first: FirstHost) -> None:
    """Returns when the first host has made the records. DataError where it has ended, or does not begin."""
    said = False
    while (found := changes(wanted.corpus, stem)) != []:
        if found:
            _refuse_other_text(wanted, stem, model_dir, found)
        if not said:
            _log.info(
                f"{wanted.corpus.name}: waiting for the first host to make {stem}.tfrecord, which it must begin within "
                f"{duration(first.limit)} (runtime.host_timeout)"
            )
        said = True
        first.check(f"{wanted.corpus.name}: the first host was to make {stem}.tfrecord")
        time.sleep(POLL_SECONDS)


def _listed(lines: Sequence[str], most: int = 5) -> str:
    more = f"; and {len(lines) - most} more" if len(lines) > most else ""
    return "; ".join(lines[:most]) + more
