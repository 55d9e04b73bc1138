"""The peers of train_step.py: BERT-small in transformers on PyTorch. Runs in an environment of its own."""

import sys
import time

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForPreTraining


def make_batch():
    generator = np.random.default_rng(0)
    positions = np.sort(np.argsort(generator.random((32, 126)), axis=1)[:, :20] + 1)
    return {
        "input_ids": torch.tensor(generator.integers(5, 30522, (32, 128))),
        "segment_ids": torch.tensor((np.arange(128) >= 64).astype(np.int64)[None].repeat(32, 0)),
        "input_mask": torch.ones(32, 128, dtype=torch.int64),
        "positions": torch.tensor(positions),
        "masked_lm_ids": torch.tensor(generator.integers(5, 30522, (32, 20))),
        "next_sentence_labels": torch.tensor(generator.integers(0, 2, 32)),
    }


def stock_loss(model, batch):
    labels = torch.full((32, 128), -100).scatter(1, batch["positions"], batch["masked_lm_ids"])
    return model(
        input_ids=batch["input_ids"],
        attention_mask=batch["input_mask"],
        token_type_ids=batch["segment_ids"],
        labels=labels,
        next_sentence_label=batch["next_sentence_labels"],
    ).loss


def gathered_loss(model, batch):
    outputs = model.bert(
        input_ids=batch["input_ids"], attention_mask=batch["input_mask"], token_type_ids=batch["segment_ids"]
    )
    hidden = outputs.last_hidden_state
    chosen = hidden.gather(1, batch["positions"][..., None].expand(-1, -1, hidden.shape[-1]))
    logits = model.cls.predictions(chosen)
    sentence = model.cls.seq_relationship(outputs.pooler_output)
    return cross_entropy(logits.flatten(0, 1), batch["masked_lm_ids"].flatten()) + cross_entropy(
        sentence, batch["next_sentence_labels"]
    )


def main() -> None:
    loss_of, options = {"stock": (stock_loss, {}), "gathered": (gathered_loss, {"fused": True})}[sys.argv[1]]
    config = BertConfig(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048)
    model = BertForPreTraining(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, **options)
    batch = make_batch()
    for _ in sys.stdin:
        start, cpu = time.perf_counter(), time.process_time()
        loss = loss_of(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        print(time.perf_counter() - start, time.process_time() - cpu, flush=True)


if __name__ == "__main__":
    main()
