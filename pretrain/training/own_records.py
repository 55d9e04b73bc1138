"""Records that a run makes of text, in its model_dir, before it trains or evaluates on them."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nlpdata.errors import UsageError
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
from pretrain.data.toy import has_toy_records, make_toy_records, with_toy_records
from pretrain.settings.schema import ExperimentConfig
from pretrain.training.checks.agreement import refuse_two_objectives
from pretrain.training.checks.settings import EVALUATIONS, used_sections
from pretrain.training.checks.toys import check_toys
from pretrain.training.first_host import FirstHost, first_host
from pretrain.training.stages.plan import of_stage

_log = logging.getLogger(__name__)

FOLDER = "records"  # in the model_dir
_TOYS = "toy"  # in the model_dir


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
            texts = [_Wanted(number, field, _corpus(config, field)) for field in _texts(config, mode)]
            if len(texts) == 2 and getattr(config.task, "use_next_sentence_label", False):
                refuse_two_objectives(*(each.corpus.facts["options"] for each in texts))
            wanted += texts
    made: dict[str, list[str]] = {}
    found = list(configs)
    with first_host(configs[0].runtime, model_dir / FOLDER, bool(wanted) and mode != "dry_run") as first:
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


def with_own_toys(configs: Sequence[ExperimentConfig], own: Path, mode: str) -> list[ExperimentConfig]:
    """The configurations with records in the folder `own` in the place of toy:...; the first host makes those that are missing.

    Raises UsageError, before any are made, where they would not fit the model or the configuration.
    """
    folder, works = own / _TOYS, check_toys(configs, mode) and mode != "dry_run"
    with first_host(configs[0].runtime, folder, works) as first:

        def make(stem: Path) -> None:
            if first:
                first.wait(f"{stem}.tfrecord", lambda: has_toy_records(stem))
            else:
                make_toy_records(stem)

        return [with_toy_records(each, used_sections(each, mode), folder, make) for each in configs]


def _corpus(config: ExperimentConfig, field: str) -> Corpus:
    return find_corpus(getattr(config.task, field), config.task, f"task.{field}")


def _texts(config: ExperimentConfig, mode: str) -> list[str]:
    """The fields of the task whose sections the mode uses, and that name text."""
    return [field for field in used_sections(config, mode) if names_corpus(getattr(config.task, field))]


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

    def is_made() -> bool:
        found = changes(wanted.corpus, stem)
        if found:
            _refuse_other_text(wanted, stem, model_dir, found)
        return found == []

    first.wait(f"{stem}.tfrecord of {wanted.corpus.name}", is_made)


def _listed(lines: Sequence[str], most: int = 5) -> str:
    more = f"; and {len(lines) - most} more" if len(lines) > most else ""
    return "; ".join(lines[:most]) + more
