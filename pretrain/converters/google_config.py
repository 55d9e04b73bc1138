"""The JSON configuration of google-research/bert and /albert, written for a model of ours."""

import json
from pathlib import Path

from nlpdata.errors import UsageError, opt
from pretrain.encoders.published import GoogleForm, published_fields, published_form
from pretrain.settings.fields import Choice

_EPSILON = 1e-12  # of Google's code; its files do not state it


def write_google_config(path: Path, encoder: Choice) -> None:
    """Writes the configuration of an encoder, e.g. bert_config.json. UsageError where Google's code would compute something else.

    Args:
      path: the file.
      encoder: of a family that has files of google-research (GoogleForm).
    """
    google = google_form(encoder)
    options = published_fields(encoder)
    epsilon, activation = options.pop("layer_norm_eps", _EPSILON), options.get("hidden_act")
    faults = []
    if activation is not None and activation not in google.written_activations:
        faults.append(f"lacks the hidden_act {activation!r}: its gelu is the tanh approximation")
    if epsilon != _EPSILON:
        faults.append(f"computes with a layer_norm_eps of {_EPSILON}, not {epsilon}")
    if lacking := google.lacks(encoder.options):
        faults.append(f"lacks {lacking}")
    if faults:
        raise UsageError(f"Google's code, which reads this format, {faults[0]}. Use {opt('format', 'hf')} or native.")
    if activation is not None:
        options["hidden_act"] = google.written_activations[activation]
    path.write_text(json.dumps(google.to_config(options), indent=2, sort_keys=True) + "\n", encoding="utf-8")


def google_form(encoder: Choice) -> GoogleForm:
    """The files of google-research of an encoder's family. UsageError where it has none."""
    form = published_form(encoder.type)
    if form is None or form.google is None:
        raise UsageError(
            f"an encoder of type {encoder.type!r} declares no files of google-research (PublishedForm.google). Use "
            f"{opt('format', 'native')}."
        )
    return form.google
