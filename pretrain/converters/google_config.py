"""The JSON configuration of google-research/bert and /albert, written for a model of ours."""

import json
from dataclasses import asdict
from pathlib import Path

from nlpdata.errors import UsageError
from pretrain.settings.schema import Choice

_EPSILON = 1e-12  # what Google's code computes with; its files do not say it


def write_google_config(path: Path, encoder: Choice) -> None:
    """Writes bert_config.json or albert_config.json. UsageError where Google's code would compute something else."""
    options = asdict(encoder.options)
    epsilon, activation = options.pop("layer_norm_eps"), options["hidden_act"]
    projection = options.pop("embedding_projection", None)
    sizes = options.get("embedding_size"), options["hidden_size"]
    faults = {
        f"hidden_act {activation!r}: its gelu is the tanh approximation": activation == "gelu",
        f"layer_norm_eps {epsilon}: its own is {_EPSILON}": epsilon != _EPSILON,
        f"a projection of embeddings of the hidden size ({sizes[1]})": bool(projection) and sizes[0] == sizes[1],
    }
    for fault, there in faults.items():
        if there:
            raise UsageError(f"Google's code, which reads this format, has no {fault}. Use --format hf or native.")
    if encoder.type == "mobilebert":
        options |= {"normalization_type": "no_norm", "trigram_input": True, "use_bottleneck": True}
    options["hidden_act"] = "gelu" if activation.startswith("gelu") else activation
    path.write_text(json.dumps(options, indent=2, sort_keys=True) + "\n", encoding="utf-8")
