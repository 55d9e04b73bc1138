"""Small fine-tuning records and experiments that the tests share."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from nlpdata.records.contract import Feature
from nlpdata.records.encoding import encode_examples
from pretrain.experiments import experiment
from pretrain.settings.data_section import DataConfig, EvalDataConfig
from pretrain.settings.fields import Choice
from pretrain.settings.schema import ExperimentConfig, RuntimeConfig
from tests.pretrain.runs import tiny

LENGTH = 32
CLS, SEP, FIRST_WORD = 2, 3, 10


def examples(count: int, kind: str = "classification", classes: int = 3, seed: int = 0) -> dict[str, np.ndarray]:
    """Columns of records whose labels show in the words: each class has its own word somewhere in the text."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(4, LENGTH + 1, count)
    place = np.arange(LENGTH)
    mask = (place < lengths[:, None]).astype(np.int64)
    ids = draw.integers(FIRST_WORD + 20, 200, (count, LENGTH))
    ids[:, 0], ids[np.arange(count), lengths - 1] = CLS, SEP
    if kind == "classification":
        labels = draw.integers(0, classes, (count, 1))
        ids[:, 1] = FIRST_WORD + labels[:, 0]
    elif kind == "regression":
        steps = draw.integers(0, 6, (count, 1))
        labels = (steps * 0.5).astype(np.float32)
        ids[:, 1] = FIRST_WORD + steps[:, 0]
    else:
        labels = draw.integers(0, 2, (count, classes))
        number = labels @ (2 ** np.arange(classes))
        ids[:, 1] = FIRST_WORD + number
    return {
        "input_ids": ids * mask,
        "input_mask": mask,
        "segment_ids": np.zeros_like(mask),
        "label_ids": labels,
        "is_real_example": np.ones((count, 1), np.int64),
        "example_id": np.arange(count)[:, None],
    }


def write(path: Path, columns: dict[str, np.ndarray], meta: dict | None = None) -> Path:
    """Writes the records, and `<path without suffix>.meta.json` next to them."""
    dtypes = {name: "float32" if values.dtype == np.float32 else "int64" for name, values in columns.items()}
    features = [Feature(name, dtypes[name], columns[name].shape[1]) for name in sorted(columns)]
    path.write_bytes(encode_examples(features, columns)[0])
    if meta is not None:
        path.with_suffix(".meta.json").write_text(json.dumps(meta))
    return path


def meta(kind: str = "classification", classes: int = 3, **changes) -> dict:
    """The meta file that create-finetuning writes for such records."""
    names = [] if kind == "regression" else ["no", "yes", "maybe", "never"][:classes]
    number = 1 if kind == "regression" else classes
    return {"task_type": f"bert_{kind}", "num_labels": number, "label_names": names, "max_seq_length": LENGTH} | changes


def records(path: Path, count: int, kind: str = "classification", classes: int = 3, seed: int = 0, **changes) -> Path:
    return write(path, examples(count, kind, classes, seed), meta(kind, classes, **changes))


def sentence_experiment(train, dev=None, *, batch=16, steps=150, rate=3e-3, encoder: Choice | None = None, **task):
    """bert/sentence_prediction on a tiny encoder without dropout."""
    base = experiment("bert/sentence_prediction")
    model = replace(base.task.model, encoder=encoder or tiny("bert", dropout=0.0), classifier_dropout_prob=0.0)
    model = replace(model, **task.pop("model", {}))
    data = {"global_batch_size": batch, "trim_padding": True}
    optimization = base.trainer.optimizer_config
    schedule = replace(optimization.learning_rate.options, initial_learning_rate=rate)
    return ExperimentConfig(
        task_type="sentence_prediction",
        task=replace(
            base.task,
            model=model,
            train_data=DataConfig(input_path=str(train), **data),
            validation_data=EvalDataConfig(input_path=str(dev or train), **data),
            **task,
        ),
        trainer=replace(
            base.trainer,
            train_steps=steps,
            optimizer_config=replace(optimization, learning_rate=Choice("polynomial", schedule)),
            tensorboard=False,
        ),
        runtime=RuntimeConfig(distribution_strategy="one_device"),
    )


CHOICES = 3
CONTEXT, WORD = 2, 5  # columns of a choice with the word that its text is about, and its own word


def choice_examples(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Columns of multiple-choice records, choice after choice: the right one says FIRST_WORD, the others the next word."""
    draw = np.random.default_rng(seed)
    place, labels = np.arange(LENGTH), draw.integers(0, CHOICES, (count, 1))
    lengths = draw.integers(8, 21, (count, CHOICES, 1))
    ids = draw.integers(FIRST_WORD + 20, 200, (count, CHOICES, LENGTH))
    ids[..., CONTEXT] = ids[:, :1, CONTEXT]
    ids[..., WORD] = FIRST_WORD + (np.arange(CHOICES) != labels)
    ids[..., 0], ids[..., 3] = CLS, SEP
    np.put_along_axis(ids, lengths - 1, SEP, axis=-1)
    mask = (place < lengths).astype(np.int64)
    columns = {"input_ids": ids * mask, "input_mask": mask, "segment_ids": mask * (place > 3)}
    return {name: values.reshape(count, -1) for name, values in columns.items()} | {"label_ids": labels}


def choice_records(path: Path, count: int, seed: int = 0, **changes) -> Path:
    """Such records, with the meta file that create-finetuning writes for them."""
    content = {"task_type": "bert_choice", "num_choices": CHOICES, "num_labels": CHOICES, "max_seq_length": LENGTH}
    return write(path, choice_examples(count, seed), content | {"label_names": [], "label_type": "int"} | changes)


def choice_experiment(train, dev=None, *, batch=16, rate=3e-3, name="bert/multiple_choice", **trainer):
    """bert/multiple_choice on a tiny encoder without dropout."""
    base = experiment(name)
    model = replace(base.task.model, encoder=tiny(name.split("/")[0], dropout=0.0), classifier_dropout_prob=0.0)
    data, optimization = {"global_batch_size": batch, "trim_padding": True}, base.trainer.optimizer_config
    schedule = replace(optimization.learning_rate.options, initial_learning_rate=rate)
    settings = {"optimizer_config": replace(optimization, learning_rate=Choice("polynomial", schedule))} | trainer
    return replace(
        base,
        task=replace(
            base.task,
            model=model,
            train_data=DataConfig(input_path=str(train), **data),
            validation_data=EvalDataConfig(input_path=str(dev or train), **data),
        ),
        trainer=replace(base.trainer, tensorboard=False, **settings),
        runtime=RuntimeConfig(distribution_strategy="one_device"),
    )


def squad_records(folder: Path, questions: int, with_negative: bool = True) -> Path:
    """SQuAD records of made-up questions, and what scoring needs: folder/{dev.tfrecord, meta.json, dev.examples.jsonl.gz}.

    A question is one word of ten; its answer, the two words behind that word in the text. A long text is cut into two
    windows. Every fifth question, with_negative, asks for a word that is not there.
    """
    draw = np.random.default_rng(0)
    rows, lines = [], []
    for number in range(questions):
        words = draw.permutation(np.arange(60, 200))[: int(draw.integers(12, 40))]
        asked, impossible = FIRST_WORD + number % 10, with_negative and number % 5 == 0
        at = int(draw.integers(0, len(words) - 3))
        if not impossible:
            words[at] = asked
        texts = [f"w{word}," if word % 7 == 0 else f"w{word}" for word in words]
        starts = np.cumsum([0, *(len(text) + 1 for text in texts)])[:-1]
        ends = starts + [len(text.rstrip(",")) for text in texts]
        context = " ".join(texts)
        gold = (
            []
            if impossible
            else [{"text": context[starts[at + 1] : ends[at + 2]], "answer_start": int(starts[at + 1])}]
        )
        name = f"q{number}"
        lines.append(
            {"example_id": name, "context": context, "answers": gold, "question": "?", "is_impossible": impossible}
        )
        room = LENGTH - 4
        for first in (
            range(0, max(len(words) - room, 0) + 1 or 1, room) if len(words) <= room else (0, len(words) - room)
        ):
            span = None if impossible else (at + 1 - first, at + 2 - first)
            rows.append(_window(name, asked, words, starts, ends, first, room, span))
    columns = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    features = [Feature(k, "bytes" if v.dtype == object else "int64", v.shape[1]) for k, v in sorted(columns.items())]
    (folder / "dev.tfrecord").write_bytes(encode_examples(features, columns)[0])
    with gzip.open(folder / "dev.examples.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    content = {
        "task_type": "bert_squad",
        "max_seq_length": LENGTH,
        "version_2_with_negative": with_negative,
        "shards": [{"file": "dev.tfrecord", "records": len(rows), "crc32c": "0", "split": "dev"}],
        "splits": {"dev": {"examples": "dev.examples.jsonl.gz"}},
    }
    (folder / "meta.json").write_text(json.dumps(content))
    return folder / "dev.tfrecord"


def _window(name, asked, words, starts, ends, first, room, span) -> dict[str, np.ndarray]:
    part = slice(first, first + room)
    size = len(words[part])
    row = {key: np.zeros(LENGTH, np.int64) for key in ("input_ids", "input_mask", "segment_ids", "paragraph_mask")}
    row |= {key: np.zeros(LENGTH, np.int64) for key in ("token_char_start", "token_char_end", "token_is_max_context")}
    row["input_ids"][: size + 4] = [CLS, asked, SEP, *words[part], SEP]
    row["input_mask"][: size + 4] = 1
    row["segment_ids"][3 : size + 4] = 1
    own = slice(3, 3 + size)
    row["token_char_start"][own], row["token_char_end"][own] = starts[part], ends[part]
    row["token_is_max_context"][own] = 1
    inside = span is not None and span[0] >= 0 and span[1] < size
    for key, position in zip(("start_positions", "end_positions"), span or (0, 0), strict=True):
        row[key] = np.array([position + 3 if inside else 0])
    return row | {"example_id": np.array([name.encode()], object)}
