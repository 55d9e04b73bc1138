"""What must agree between a run's records, the weights that it starts from and its earlier part; and what is reported."""

import importlib
import importlib.metadata
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import keras

from nlpdata.errors import UsageError
from pretrain.converters import native
from pretrain.converters.same_tokenizer import refuse_other_tokenizer, refuse_unequal_records
from pretrain.data.batches import Batches
from pretrain.data.tokenizers import reads_text, tokenizer_entry
from pretrain.optimizers.curve import OLDER_RUN, in_words, stored_description
from pretrain.settings.schema import DataConfig, ExperimentConfig, TaskConfig
from pretrain.settings.tree import to_tree

_log = logging.getLogger(__name__)

# Share of an embedding's rows that have a piece, up to which the others are worth a word: sizes are rounded up.
_MOST_IN_USE = 0.9

_SIZES = {"num_choices": "num_choices", "seq_length": "max_seq_length"}
"""Facts about data that may differ between training and evaluation -> what records call them."""


@dataclass(frozen=True)
class RunData:
    """The batches of a run; None where its mode does not use them, which is never so for both."""

    train: Batches | None
    validation: Batches | None

    @property
    def own(self) -> Batches:
        """The training data, or what an evaluation has in its place."""
        found = self.train if self.train is not None else self.validation
        assert found is not None
        return found

    def sections(self) -> Iterator[tuple[str, Batches]]:
        """(name of the section of the task's configuration, its batches) of those that are used."""
        for name, data in (("train_data", self.train), ("validation_data", self.validation)):
            if data is not None:
                yield name, data


def describe_run(config: ExperimentConfig, data: RunData, replicas: int, schedule: Mapping | None) -> dict[str, Any]:
    """The facts about a run that its checkpoints keep, in values of JSON.

    Args:
      config: configuration of the run.
      data: its batches.
      replicas: number of devices.
      schedule: description of its learning rate; None where it does not train.
    """
    encoder = getattr(getattr(config.task, "model", None), "encoder", None)
    return {
        "backend": keras.backend.backend(),
        "config": asdict(config),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "data": {**_about(data), "seed": config.task.train_data.seed},
        "encoder": {"type": encoder.type, "options": asdict(encoder.options)} if encoder else None,
        "replicas": replicas,
        **({"schedule": schedule} if schedule is not None else {}),
        "seed": config.runtime.seed,
        "versions": _versions("keras", keras.backend.backend(), "numpy"),
    }


def facts_of_hosts(config: ExperimentConfig, data: RunData, steps: int, step: int) -> dict[str, Any]:
    """What must be the same on all hosts of a run, a tree in values of JSON.

    Args:
      config: configuration of the run, as the user gave it.
      data: its batches.
      steps: length of the run.
      step: that of the checkpoint from which it continues; 0: none.
    """
    versions = _versions("keras", keras.backend.backend(), "numpy")
    about = {"the run's steps": steps, "the checkpoint's step": step, "data": _about(data), "versions": versions}
    return {**to_tree(config), **about}


def _about(data: RunData) -> dict[str, Any]:
    own = data.own
    sizes = {"num_examples": own.num_examples, "batch_size": own.batch_size, "steps_per_epoch": own.steps_per_epoch}
    return {**own.facts, **sizes}


def stored_steps(info: Mapping) -> int | None:
    """The length in steps of the run that has written a checkpoint, as count_steps has it; None where it does not say."""
    trainer, data = native.stored_trainer(info), info.get("data", {})
    numbers = (data.get("steps_per_epoch"), 1, trainer.get("num_train_epochs"))
    if numbers[0] is None:  # of a version that took whole batches alone
        numbers = (data.get("num_examples"), data.get("batch_size"), trainer.get("num_train_epochs"))
    if trainer.get("train_steps") is not None:
        numbers = (trainer["train_steps"], 1, 1)
    if not all(isinstance(number, int) and number > 0 for number in numbers):
        return None
    examples, batch, epochs = numbers
    return examples // batch * epochs


def report_changes(before: Mapping, now: Mapping) -> None:
    """Warns of what makes a resumed run's curve differ from an uninterrupted one's.

    Args:
      before, now: descriptions of the run, as describe_run gives them: the checkpoint's and the present one.
    """
    _report_schedule(stored_description(before), now["schedule"])
    then, data = before.get("data", {}), now["data"]
    for what, old, new in (
        ("CPU cores", before.get("cores"), now["cores"]),
        ("seed", before.get("seed"), now["seed"]),
        ("replicas", before.get("replicas"), now["replicas"]),
        ("versions", before.get("versions"), now["versions"]),
        *((f"train data's {name}", then.get(name), data.get(name)) for name in ("num_examples", "batch_size", "seed")),
        *((f"the records' {told}", then.get(name), data.get(name)) for name, told in _SIZES.items()),
    ):
        if old is not None and old != new:
            _log.warning(
                f"{what} {old} before, {new} now: the curve will not equal the uninterrupted run's bit for bit"
            )


def _report_schedule(before: Mapping | None, now: Mapping) -> None:
    """Reports that the rest of the run follows another learning rate, or an older run's rule."""
    if before is not None and dict(before) != dict(now):
        _log.warning(f"the learning rate differs. Before: {in_words(before)}. Now: {in_words(now)}")
    elif now.get("rule") == OLDER_RUN:
        _log.info(
            f"the learning rate keeps the rule that this run began with, a decay from step 0: {in_words(now)}. A new run "
            "decays from where warm-up ends"
        )


def refuse_records_of_two_tokenizers(task: TaskConfig, data: RunData) -> None:
    """UsageError where the validation records' tokenizer is not that of the training records."""
    sections = dict(data.sections())
    if len(sections) == 2:
        train, validation = (tokenizer_entry(getattr(task, name), each.name) for name, each in sections.items())
        refuse_unequal_records(train, validation, getattr(task, "allow_other_tokenizer", False))


def idle_rows(task: TaskConfig) -> str | None:
    """What to tell of an embedding with many rows that are of no piece of the tokenizer; None where there are few."""
    pieces = tokenizer_entry(task.train_data, "task.train_data")[1].get("vocab_size")
    rows = getattr(task.model.encoder.options, "vocab_size", None)
    if not pieces or not rows or pieces > _MOST_IN_USE * rows:
        return None
    field = f"task.model.encoder.{task.model.encoder.type}.vocab_size"
    return (
        f"{field} is {rows:,}, and the tokenizer has {pieces:,} pieces: {1 - pieces / rows:.0%} of the rows of the embedding learn "
        f"nothing. {field}={pieces} makes a model without them"
    )


def idle_fields(configs: Sequence[ExperimentConfig]) -> list[str]:
    """Dotted paths of the fields of the data sections that are for text alone, where no stage reads text.

    configs: of the stages, as the user gave them.
    """
    found = []
    for name in ("train_data", "validation_data"):
        sections = [getattr(config.task, name) for config in configs]
        if not any(map(reads_text, sections)):
            found += [f"task.{name}.{field}" for field in sections[0].of_text]
    return found


def idle_settings(section: DataConfig, name: str) -> str | None:
    """What to tell of fields for text alone that are set where a section reads records; None where there are none."""
    default = type(section)()
    found = [field for field in section.of_text if getattr(section, field) != getattr(default, field)]
    if not found or not section.is_given or reads_text(section):
        return None
    return f"{name}: no effect on records, which are made already: {', '.join(found)}"


def refuse_other_stage(first: TaskConfig, task: TaskConfig, before: RunData, data: RunData) -> None:
    """UsageError where the records of a stage have another tokenizer, or other labels, than those of the first one."""
    own, other = (tokenizer_entry(each.train_data, found.own.name) for each, found in ((first, before), (task, data)))
    allow = getattr(task, "allow_other_tokenizer", False)
    refuse_unequal_records(own, other, allow, names=("the first stage", "task.train_data"))
    refuse_other_labels(before.own.facts, data.own.facts)


def refuse_tokenizer_of_other_weights(task: TaskConfig, data: RunData, source: str) -> None:
    """UsageError where the records' tokenizer is not that of the checkpoint `source`."""
    for name, each in data.sections():
        file, use = tokenizer_entry(getattr(task, name), each.name)
        allow = getattr(task, "allow_other_tokenizer", False)
        refuse_other_tokenizer(f"the records of {each.name}", use, file, source, allow)


def other_sizes(trained: Mapping, evaluated: Mapping, whose: str) -> str | None:
    """What to tell of evaluation records of another length, or with another number of choices; None where they are alike, or where
    one of the two does not say.

    Args:
      trained, evaluated: facts about the data: the checkpoint's or Batches.facts, and Batches.facts.
      whose: which records `trained` are facts about, e.g. "task.train_data".
    """
    pairs = {told: (trained.get(what), evaluated.get(what)) for what, told in _SIZES.items()}
    differ = {told: pair for told, pair in pairs.items() if None not in pair and pair[0] != pair[1]}
    if not differ:
        return None
    old, new = (" and ".join(f"{told} {pair[at]}" for told, pair in differ.items()) for at in (0, 1))
    return f"the records of task.validation_data have {new}, those of {whose} {old}: the scores are of examples of another size"


def refuse_two_objectives(train: Mapping, validation: Mapping) -> None:
    """UsageError where the sentence pairs of training and evaluation are of two objectives.

    Args:
      train, validation: facts about the data (Batches.facts).
    """
    own, other = train.get("objective"), validation.get("objective")
    if own and other and own != other:
        raise UsageError(
            f"task.validation_data has sentence pairs of objective {other}, task.train_data those of {own}, whose labels mean "
            "something else. Evaluate on records of the objective that is learned."
        )


def refuse_other_labels(before: Mapping, now: Mapping) -> None:
    """UsageError where labels of the records mean other things than those that the model was trained on.

    Args:
      before, now: facts about the data: the checkpoint's, and Batches.facts.
    """
    for what in ("kind", "label_names"):
        old, new = before.get(what), now.get(what)
        if old and new and old != new:
            raise UsageError(
                f"the model was trained with {what} {_listed(old)}, the records have {_listed(new)}: its predictions mean "
                "something else. Make records with the same task, labels and --label-order."
            )
    old, new = before.get("objective"), now.get("objective")
    if old and new and old != new:
        raise UsageError(
            f"the model was trained with sentence pairs of objective {old}, the records have those of {new}, whose labels mean "
            f"something else. Make records with --objective {old}; or let a new run start from the model (init_checkpoint)."
        )


def _listed(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _versions(*packages: str) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:  # e.g. tensorflow-cpu provides tensorflow
            found[package] = getattr(importlib.import_module(package), "__version__", "unknown")
    return found
