"""Small records that a run makes itself: `input_path: toy:nsp` (or toy:sop, toy:none), for trying things out.

The text is of a made-up language of some 70 words in which both objectives can be learned: a document is about one animal
in one place, so a foreign second segment shows; its sentences tell of one day after the other, so a swapped order shows.
"""

import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nlpdata.errors import UsageError, closest
from nlpdata.files.json_files import write_file
from pretrain.settings.schema import ExperimentConfig

_log = logging.getLogger(__name__)

OBJECTIVES = ("nsp", "sop", "none")
SEQ_LENGTH, PREDICTIONS = 32, 5
_SETS = {"train_data": "", "validation_data": ".eval"}  # data section -> suffix of its records
_DOCUMENTS = 600
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_DAYS = "one two three four five six seven eight nine ten".split()
_ANIMALS = "fox owl bear hare wolf mouse deer crow duck frog goat horse lamb swan toad wren".split()
_PLACES = "barn cave field forest garden harbour hill island lake meadow mill river tower valley village wood".split()
_VERBS = "finds hides brings counts eats sees wants leaves".split()
_THINGS = "apple berry bone flower leaf nut pearl root seed shell stick stone".split()
_FORMS = (
    "on day {day} the {animal} {verb} a {thing} in the {place}",
    "in the {place} the {animal} {verb} the {thing} on day {day}",
    "day {day} : the {animal} of the {place} {verb} one more {thing}",
)


def toy_objective(input_path: str | Sequence[str]) -> str | None:
    """The objective that an input path such as toy:nsp names; None for any other path."""
    if not isinstance(input_path, str) or not input_path.startswith("toy:"):
        return None
    objective = input_path.removeprefix("toy:")
    if objective not in OBJECTIVES:
        raise UsageError(
            f"input_path {input_path!r}: toy records are toy:nsp, toy:sop or toy:none.{closest(objective, OBJECTIVES)}"
        )
    return objective


def toy_meta(objective: str) -> dict[str, Any]:
    """What decides whether toy records fit a run, as their meta files say it once they are made."""
    sizes = {"max_seq_length": SEQ_LENGTH, "max_predictions_per_seq": PREDICTIONS}
    return {"objective": objective, **sizes, "tokenizer": {"vocab_size": len(toy_vocabulary())}}


def with_toy_records(
    config: ExperimentConfig, names: Iterable[str], folder: Path, make: Callable[[Path], None]
) -> ExperimentConfig:
    """The configuration with paths of real records in the place of toy:...

    Args:
      config: configuration of the experiment.
      names: of the data sections that are used.
      folder: where the records are.
      make: sees to it that `<path>.tfrecord` and `<path>.eval.tfrecord` are there; the name of the path is the objective.
    """
    task = config.task
    for name in names:
        data = getattr(task, name)
        objective = toy_objective(data.input_path)
        if objective:
            make(folder / objective)
            path = f"{folder / objective}{_SETS[name]}.tfrecord"
            task = replace(task, **{name: replace(data, input_path=path)})
    return replace(config, task=task)


def has_toy_records(stem: Path) -> bool:
    """Whether `<stem>.tfrecord` and `<stem>.eval.tfrecord` are complete."""
    from nlpdata.output import is_unfinished

    sets = [f"{stem}{suffix}" for suffix in _SETS.values()]
    return all(Path(f"{name}.meta.json").exists() and not is_unfinished(f"{name}.tfrecord") for name in sets)


def make_toy_records(stem: Path) -> None:
    """Makes `<stem>.tfrecord` and `<stem>.eval.tfrecord`, unless they are there; the name of the stem is the objective."""
    from nlpdata import create_pretraining

    if has_toy_records(stem):
        return
    folder = stem.parent
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / "text.txt", toy_text().encode())
    write_file(folder / "vocab.txt", ("\n".join(toy_vocabulary()) + "\n").encode())
    result = create_pretraining(
        str(folder / "text.txt"),
        f"{stem}.tfrecord",
        str(folder / "vocab.txt"),
        objective=stem.name,
        do_lower_case=True,
        max_seq_length=SEQ_LENGTH,
        max_predictions_per_seq=PREDICTIONS,
        dupe_factor=2,
        eval_fraction=0.1,
        workers=1,
        overwrite=True,
    )
    _log.info(f"made {result.counters['examples_train']:,} toy examples: {stem}.tfrecord")


def toy_text(documents: int = _DOCUMENTS, seed: int = 0) -> str:
    """One sentence a line, a blank line between documents; the same each time."""
    draw = random.Random(seed)
    texts = []
    for _ in range(documents):
        about = {"animal": draw.choice(_ANIMALS), "place": draw.choice(_PLACES)}
        days = _DAYS[: draw.randint(4, len(_DAYS))]
        texts.append(
            "".join(
                draw.choice(_FORMS).format(day=day, verb=draw.choice(_VERBS), thing=draw.choice(_THINGS), **about)
                + "\n"
                for day in days
            )
        )
    return "\n".join(texts)


def toy_vocabulary() -> list[str]:
    """Special tokens first, then every word of the language."""
    return [*_SPECIAL, *sorted(set(toy_text(documents=50).split()) | {*_DAYS, *_ANIMALS, *_PLACES, *_VERBS, *_THINGS})]
