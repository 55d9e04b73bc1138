"""The model card of an export, README.md: what the model is, how it was trained and evaluated, how to load it, what it cannot do.

Its facts are those of the checkpoint, and of the run that wrote it where one did. What neither knows is left out.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from nlpdata.errors import printable
from nlpdata.files.json_files import write_file
from nlpdata.reports import run_words
from nlpdata.reports.bounds import bounded
from nlpdata.reports.page import Code, Notes, Report, Section, Table, is_empty, markdown
from nlpdata.reports.run_facts import Run, is_finite, read_run, run_above
from pretrain.converters import native
from pretrain.converters.checkpoint import Checkpoint, encoder_fields
from pretrain.converters.format import CheckpointFormat
from pretrain.converters.heads import CHOICE, heads_of
from pretrain.converters.usage import head_for

NAME = "README.md"

_LICENSE = (
    "No license is stated. Before you give the model to others, add one to the lines between the dashes above, such as "
    "license: apache-2.0; what it was trained on may limit the choice."
)
_PIPELINES = {
    "classifier": "text-classification",
    "span": "question-answering",
    CHOICE: "multiple-choice",
    "masked_lm": "fill-mask",
    "": "feature-extraction",
}
_HEADS = {
    "masked_lm": "masked words",
    "sentence_pair": "pairs of segments",
    "classifier": "labels",
    "span": "answers in a text",
    CHOICE: "choices",
}
_NO_SCORES = ("step", "examples", "loss")


def write_card(folder: Path, checkpoint: Checkpoint, chosen: CheckpointFormat, notes: Sequence[str]) -> None:
    """Writes the model card of a checkpoint.

    Args:
      folder: what it is of: written in the format `chosen`, with its tokenizer.
      checkpoint: what was written.
      notes: what writing said.

    DataError where the disk refuses.
    """
    write_file(folder / NAME, card(checkpoint, chosen, chosen.usage(folder, checkpoint, notes)).encode())


def card(checkpoint: Checkpoint, chosen: CheckpointFormat, usage: str) -> str:
    """The text of a model card: metadata in YAML between dashes, as Hugging Face's hub reads it, and Markdown.

    Args:
      checkpoint: the model.
      chosen: the format that it is written in.
      usage: a program that loads it; "": none is known.
    """
    run, step = _run_of(checkpoint)
    scores = _scores(run, step)
    metadata = yaml.safe_dump(
        _metadata(checkpoint, chosen, run, scores), sort_keys=False, allow_unicode=True, width=120
    )
    return f"---\n{metadata}---\n\n{markdown(bounded(_report(checkpoint, run, step, scores, usage)))}"


def _run_of(checkpoint: Checkpoint) -> tuple[Run | None, int | None]:
    """The run that wrote a checkpoint, and its step; None where no run did, or its folder is not there."""
    folder = Path(checkpoint.source)
    step = native.step_of(folder)
    place = run_above(folder)
    if step is None or place is None or not (folder / native.INFO).is_file():
        return None, None
    return read_run(place), step


def _scores(run: Run | None, step: int | None) -> dict[str, float]:
    """The metrics of the evaluation of this very checkpoint; {} where there was none, or several that differ."""
    found: dict[str, float] = {}
    for name, curve in (run.evaluations if run else {}).items():
        values = {value for at, value in curve.points if at == step}
        if len(values) == 1 and is_finite(value := values.pop()):
            found[name] = value
    return found


def _evaluated_on(run: Run | None, scores: dict[str, float]) -> str:
    """What the data of the evaluation is called; "" where the run does not say what this one was on."""
    data = run.evaluated_on if run else {}
    return run_words.data_name(data) if data and data.get("examples") == scores.get("examples") else ""


# ---------------------------------------------------------------------------------------------------------------- metadata


def _metadata(
    checkpoint: Checkpoint, chosen: CheckpointFormat, run: Run | None, scores: dict[str, float]
) -> dict[str, Any]:
    pipeline = _PIPELINES[head_for(checkpoint)]
    found: dict[str, Any] = {}
    if languages := _languages(run):
        found["language"] = languages
    if chosen.library:
        found["library_name"] = chosen.library
    found |= {"pipeline_tag": pipeline, "tags": [checkpoint.known_encoder.type]}
    name = _evaluated_on(run, scores)
    metrics = [
        {"type": printable(metric), "value": value}
        for metric, value in scores.items()
        if metric not in _NO_SCORES and not metric.endswith("_thresh")
    ]
    if run is not None and name and metrics:
        data = {"type": _identifier(name), "name": printable(name)}
        result = {"task": {"type": pipeline}, "dataset": data, "metrics": metrics}
        found["model-index"] = [{"name": printable(run.name), "results": [result]}]
    return found


def _languages(run: Run | None) -> list[str]:
    """The languages that were chosen of a data set of several, by their codes; [] where nothing says it."""
    stages = run.about.get("stages", []) if run else []
    options = [records.get("options") for stage in stages if isinstance(records := stage.get("records"), dict)]
    chosen = [each.get("language") for each in options if isinstance(each, dict)]
    codes = [code.strip() for text in chosen if isinstance(text, str) for code in text.split(",")]
    return sorted({code for code in codes if re.fullmatch("[a-z]{2,3}", code)})


def _identifier(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-").lower() or "data"


# -------------------------------------------------------------------------------------------------------------------- text


def _report(checkpoint: Checkpoint, run: Run | None, step: int | None, scores: dict[str, float], usage: str) -> Report:
    encoder = checkpoint.known_encoder
    title = run.name if run else f"{encoder.type} model"
    origin = (
        f"from step {step:,} of a run of nlpdata"
        if run
        else f"converted by nlpdata from the format {checkpoint.format}"
    )
    stages = run.about.get("stages", []) if run else []
    data = [
        (f"Training data{f', stage {number}' if len(stages) > 1 else ''}", run_words.records(stage))
        for number, stage in enumerate(stages, 1)
    ]
    sections = (
        Section("Model", "", (_facts(_model(checkpoint)),)),
        Section("How to load it", "In this folder:" if usage else "", (Code(usage),) if usage else ()),
        Section("Evaluation", *_evaluation(run, scores)),
        Section("Training", "", (_facts(_training(run)),)),
        *(Section(name, "", (_facts(facts),)) for name, facts in data),
        Section("Limits", "", (Notes(tuple(_limits(checkpoint, run, step, scores))),)),
        Section("License", _LICENSE),
        Section("Versions", "", (_facts(run_words.environment(run) if run else {}),)),
    )
    kept = tuple(each for each in sections if each.text or any(not is_empty(item) for item in each.items))
    return Report(title, f"A model of the type {encoder.type}, {origin}.", (), kept)


def _facts(facts: run_words.Facts) -> Table:
    return Table(("", "value"), tuple(facts.items()))


def _model(checkpoint: Checkpoint) -> run_words.Facts:
    encoder, tokenizer, head = checkpoint.known_encoder, checkpoint.tokenizer, checkpoint.head
    fields = encoder_fields(encoder)
    found = run_words.architecture(fields["type"], fields["options"])
    found["parameters"] = sum(int(weight.size) for weight in checkpoint.weights.values())
    heads = [words for name, words in _HEADS.items() if name in heads_of(checkpoint.weights)]
    found["heads"] = ", ".join(heads) if heads else "none: it gives vectors"
    if head is not None:
        found["kind of labels"] = head.kind
        if checkpoint.extras.get("label_names"):
            found["labels"] = run_words.listed(head.names, 50)
    if tokenizer is not None:
        found |= {"tokenizer": tokenizer.kind, "vocabulary": tokenizer.vocab_size}
        found |= run_words.casing(tokenizer.options())
    return found


def _training(run: Run | None) -> run_words.Facts:
    if run is None:
        return {}
    start = Path(str(run.config.get("task.init_checkpoint") or "")).name
    found = run_words.training(run)
    return {"began with": start if start else "random weights", **found} if run.config else found


def _evaluation(run: Run | None, scores: dict[str, float]) -> tuple[str, tuple[Table, ...]]:
    """(what it was on, its metrics)."""
    if run is None:
        return "", ()
    if not scores:
        return "No evaluation of this checkpoint is recorded.", ()
    name, examples = _evaluated_on(run, scores), scores.get("examples")
    where = f"On {name}" if name else "On data that the run does not name"
    unit = "windows of texts" if "exact_match" in scores else "examples"  # a question may have several
    count = f", {examples:,.0f} {unit}." if examples is not None else "."
    rows = tuple((metric, value) for metric, value in scores.items() if metric not in ("step", "examples"))
    return f"{where}{count} {run_words.units(scores)}".rstrip(), (Table(("metric", "value"), rows),)


def _limits(checkpoint: Checkpoint, run: Run | None, step: int | None, scores: dict[str, float]) -> list[str]:
    """What a user must know, in sentences."""
    options, trained = checkpoint.known_encoder.options, checkpoint.extras.get("seq_length")
    longest = options.max_position_embeddings
    found = [f"It takes at most {longest:,} tokens."]
    if trained and trained < longest:
        found = [f"It takes at most {longest:,} tokens, and was trained on examples of at most {trained:,}."]
    if checkpoint.tokenizer is not None and checkpoint.tokenizer.options().get("do_lower_case"):
        found.append("Its tokenizer lower-cases, so it does not tell upper case from lower case.")
    if checkpoint.tokenizer is not None and checkpoint.tokenizer.options().get("keep_accents") is False:
        found.append("Its tokenizer drops accents, and with them signs of other scripts, such as vowels of Hindi.")
    if head_for(checkpoint) in ("masked_lm", ""):
        found.append("It is pretrained, not fine-tuned: it predicts masked words or gives vectors, and no labels.")
    if checkpoint.head is not None and checkpoint.head.kind == "classification":
        found.append("It gives one of its labels to every text, also to one that none of them fits.")
    if head_for(checkpoint) == CHOICE:
        found.append("It takes one of the choices that it is given, also where none of them is right.")
    if run is not None:
        if step is not None and run.steps is not None and step < run.steps:
            found.append(f"It is the checkpoint of step {step:,} of a run of {run.steps:,} steps.")
        if run.classes.get("step") == step and (remark := run_words.remark(run.classes)):
            found.append(remark)
        if not scores:
            found.append("How good it is was not measured.")
        elif (examples := scores.get("examples")) is not None and examples < 1000:
            found.append(
                f"It was evaluated on {examples:,.0f} examples: the scores of so few vary from sample to sample."
            )
    found.append("What its training data says wrongly or unfairly it may have learned; that was not examined here.")
    return found
