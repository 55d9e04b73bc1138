"""Makes mobilebert/: a small MobileBERT of random weights, written by transformers, and what transformers computes of it.

    pip install torch transformers        # made with torch 2.13.0 (CPU), transformers 5.24.0
    python tests/pretrain/golden/make_mobilebert.py

reference.npz holds the inputs (input_ids, input_mask, segment_ids, int32 (3, 12)) and, float32, sequence_output,
pooled_output, mlm_logits and sentence_logits of MobileBertForPreTraining.
"""

from pathlib import Path

import numpy as np
import torch
from transformers import MobileBertConfig, MobileBertForPreTraining

FOLDER = Path(__file__).parent / "mobilebert"


def main():
    torch.manual_seed(0)
    config = MobileBertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=24,
        embedding_size=12,
        intra_bottleneck_size=16,
        num_feedforward_networks=3,
        max_position_embeddings=16,
        type_vocab_size=3,
        classifier_activation=True,
    )
    model = MobileBertForPreTraining(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():  # also gammas and biases, which start at 1 and 0
            centre = 1.0 if name.endswith("LayerNorm.weight") else 0.0
            weight.copy_(centre + 0.15 * torch.randn(weight.shape))  # nothing is normalised: more, and outputs explode
    model.save_pretrained(FOLDER)
    (FOLDER / "generation_config.json").unlink(missing_ok=True)

    rng = np.random.default_rng(0)
    inputs = {
        "input_ids": rng.integers(0, 50, (3, 12)),
        "input_mask": (np.arange(12) < np.array([[12], [9], [4]])).astype(int),
        "segment_ids": rng.integers(0, 3, (3, 12)),
    }
    tensors = {name: torch.tensor(rows) for name, rows in inputs.items()}
    renamed = {"attention_mask": tensors["input_mask"], "token_type_ids": tensors["segment_ids"]}
    with torch.no_grad():
        encoded = model.mobilebert(input_ids=tensors["input_ids"], **renamed)
        heads = model(input_ids=tensors["input_ids"], **renamed)
    outputs = {
        "sequence_output": encoded.last_hidden_state,
        "pooled_output": encoded.pooler_output,
        "mlm_logits": heads.prediction_logits,
        "sentence_logits": heads.seq_relationship_logits,
    }
    print({name: value.abs().max().item() for name, value in outputs.items()})
    arrays = {name: rows.astype(np.int32) for name, rows in inputs.items()}
    np.savez_compressed(FOLDER / "reference.npz", **arrays, **{name: value.numpy() for name, value in outputs.items()})


if __name__ == "__main__":
    main()
