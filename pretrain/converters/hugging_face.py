"""Hugging Face folders, read and written: config.json with model.safetensors or pytorch_model.bin, each whole or in shards.

Model, ForPreTraining, ForMaskedLM, ForNextSentencePrediction, ForSequenceClassification, ForMultipleChoice and
ForQuestionAnswering of Bert, Albert and MobileBert; the names of a bare model lack the prefix "bert.", "albert." or
"mobilebert.". Of other classes, as `architectures` in config.json names them, the encoder is read.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nlpdata.errors import DataError, UsageError, opt
from nlpdata.tokenizers.files import FAST
from pretrain.converters import safetensors
from pretrain.converters.checkpoint import Checkpoint, find_model_config
from pretrain.converters.format import CheckpointFormat
from pretrain.converters.heads import CHOICE, as_classifier, head_of
from pretrain.converters.hugging_face_heads import HeadConfig, architecture_of, head_fields, hugging_face_form
from pretrain.converters.hugging_face_weights import (
    explain,
    has_hugging_face_weights,
    is_weights_file,
    read_tensors,
    weights_file,
    with_task_names,
)
from pretrain.converters.tokenizer_files import write_for_hugging_face
from pretrain.converters.usage import CHOICES, MASKED, QUESTION, TEXT, example_ids, head_for
from pretrain.converters.weights import UNKNOWN, form_of, give, names_of, refuse_unwritten, take
from pretrain.encoders.model_config import HUGGING_FACE_CONFIG
from pretrain.encoders.published import HuggingFaceForm, published_fields
from pretrain.encoders.weight_names import WeightNames
from pretrain.settings.fields import Choice


class HuggingFaceFormat(CheckpointFormat):
    """A folder of transformers, or its file of weights."""

    place = "Hugging Face's weights"
    places = "Hugging Face folders"
    writes = "Hugging Face folder, with tokenizer files"
    library = "transformers"
    holds = ("kind", "label_names")

    def recognises(self, place: Path) -> bool:
        return has_hugging_face_weights(place) or is_weights_file(place)

    def explain(self, place: Path) -> None:
        explain(place)

    def read(self, place: Path, model_config: Choice | None) -> Checkpoint:
        return _read(place, model_config)

    def refuse(self, checkpoint: Checkpoint) -> None:
        _written_form(checkpoint)

    def write(self, folder: Path, checkpoint: Checkpoint) -> list[str]:
        _write(folder, checkpoint)
        return []

    def write_tokenizer(self, folder: Path, checkpoint: Checkpoint) -> list[str]:
        """As AutoTokenizer needs it."""
        longest = checkpoint.known_encoder.options.max_position_embeddings
        assert checkpoint.tokenizer is not None
        return write_for_hugging_face(folder, checkpoint.tokenizer, longest)

    def usage(self, folder: Path, checkpoint: Checkpoint, notes: Sequence[str]) -> str:
        """With the tokenizer where AutoTokenizer loads it."""
        if not (folder / FAST).is_file():
            lines = ["import torch", "from transformers import AutoModel", "", 'model = AutoModel.from_pretrained(".")']
            lines.append(f"outputs = model(input_ids=torch.tensor([{example_ids(checkpoint)}]))")
            return "\n".join([*lines, "print(outputs.last_hidden_state.shape)"])
        head = head_for(checkpoint)
        if head == "classifier":
            lines = ["from transformers import pipeline", "", 'classify = pipeline("text-classification", model=".")']
            return "\n".join([*lines, f'print(classify("{TEXT}"))'])
        if head == "masked_lm":
            lines = ["from transformers import pipeline", "", 'fill = pipeline("fill-mask", model=".")']
            return "\n".join([*lines, f'print(fill(f"{MASKED.format("{fill.tokenizer.mask_token}")}"))'])
        if head == CHOICE:
            return _usage_of_choices()
        kind, given = ("AutoModelForQuestionAnswering", QUESTION) if head == "span" else ("AutoModel", (TEXT,))
        texts = ", ".join(f'"{text}"' for text in given)
        lines = [
            f"from transformers import {kind}, AutoTokenizer",
            "",
            'tokenizer = AutoTokenizer.from_pretrained(".")',
        ]
        lines += [f'model = {kind}.from_pretrained(".")', f'inputs = tokenizer({texts}, return_tensors="pt")']
        lines.append("outputs = model(**inputs)")
        if head == "span":
            lines.append("start, end = int(outputs.start_logits.argmax()), int(outputs.end_logits.argmax())")
            return "\n".join([*lines, 'print(tokenizer.decode(inputs["input_ids"][0, start : end + 1]))'])
        return "\n".join([*lines, "print(outputs.last_hidden_state.shape)"])


def _usage_of_choices() -> str:
    context, question, choices = CHOICES
    texts = ", ".join(f'"{question} {choice}"' for choice in choices)
    lines = ["from transformers import AutoModelForMultipleChoice, AutoTokenizer", ""]
    lines += [
        'tokenizer = AutoTokenizer.from_pretrained(".")',
        'model = AutoModelForMultipleChoice.from_pretrained(".")',
    ]
    lines.append(f'context, texts = "{context}", [{texts}]')
    lines.append('inputs = tokenizer([context] * len(texts), texts, padding=True, return_tensors="pt")')
    lines.append("outputs = model(**{name: each[None] for name, each in inputs.items()})")
    return "\n".join([*lines, "print(texts[int(outputs.logits.argmax())])"])


def _read(path: Path, model_config: Choice | None) -> Checkpoint:
    folder, file = (path.parent, path) if path.is_file() else (path, weights_file(path))
    encoder = find_model_config(model_config, [folder], str(path), own=[HUGGING_FACE_CONFIG])
    names, form = names_of(encoder, "hf", str(path)), hugging_face_form(encoder)
    _refuse(form, encoder, str(folder))
    tensors = with_task_names(read_tensors(file), names, form.prefix, str(file))
    config = HeadConfig(folder / HUGGING_FACE_CONFIG)
    heads, left_out = config.heads(form, tensors)
    weights, unused, untied = take(tensors, _of_heads(names, (None, *heads)), encoder, str(file))
    for name in [name for name, why in unused.items() if left_out and why == UNKNOWN]:
        unused[name] = f"of {', '.join(left_out)}, which is left out"
    if "masked_lm" in heads:
        left_out |= untied
    if not weights:
        found = ", ".join([*sorted(tensors)[:4], "..."]) if tensors else "no weight at all"
        raise DataError(f"{file}: no weight has a name of a {encoder.type} model. It holds {found}")
    weights = {path: array for path, array in weights.items() if array.size}  # an empty one means none
    facts = config.facts(weights["classifier/logits/kernel"].shape[1]) if "classifier/logits/kernel" in weights else {}
    return Checkpoint("hf", str(path), encoder, weights, unused, facts, left_out=left_out)


def _of_heads(names: WeightNames, heads: Collection[str | None]) -> WeightNames:
    """The names of the encoder (None) and of some heads."""
    return WeightNames(
        [row for row in names.rows if head_of(row.ours) in heads],
        {name: ours for name, ours in names.tied.items() if head_of(ours) in heads},
    )


def _refuse(form: HuggingFaceForm, encoder: Choice, source: str) -> None:
    """UsageError for a model that transformers cannot compute."""
    if refusal := form.refusal(encoder.options):
        raise UsageError(f"{source}: {refusal}. Use {opt('format', 'tf1')} or native.")


def _written_form(checkpoint: Checkpoint) -> tuple[HuggingFaceForm, WeightNames, str]:
    """(the form of its folders, what they call its weights, its class). UsageError where they have no place for it."""
    encoder = checkpoint.known_encoder
    names, form = names_of(encoder, "hf", checkpoint.source), hugging_face_form(encoder)
    refuse_unwritten(as_classifier(checkpoint), names, "hf")
    _refuse(form, encoder, checkpoint.source)
    return form, names, architecture_of(checkpoint)


def _write(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes config.json and model.safetensors into an existing folder, for AutoModel and the like."""
    form, names, architecture = _written_form(checkpoint)
    weights = form.completed(as_classifier(checkpoint).weights, checkpoint.known_encoder.options)
    tensors = give(replace(checkpoint, weights=dict(weights)), names)
    if architecture.endswith("Model"):
        tensors = {name.removeprefix(f"{form.prefix}."): array for name, array in tensors.items()}
    # Some versions read the head's bias under its first name, some under its second.
    tensors |= {name: weights[ours] for name, ours in names.tied.items() if head_of(ours) and ours in weights}
    safetensors.write(folder / "model.safetensors", tensors, {"format": "pt"})
    config = json.dumps(_config(checkpoint, form), indent=2, sort_keys=True)
    (folder / HUGGING_FACE_CONFIG).write_text(config + "\n", encoding="utf-8")


def _config(checkpoint: Checkpoint, form: HuggingFaceForm) -> dict[str, Any]:
    options = form.to_config(published_fields(checkpoint.known_encoder))
    activation = options.get("hidden_act")
    if activation is not None:
        options["hidden_act"] = form.written_activations.get(activation, activation)
    model_type = form_of(checkpoint.known_encoder).model_type
    return {"model_type": model_type, "pad_token_id": 0} | options | head_fields(checkpoint)
