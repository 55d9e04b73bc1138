"""The peer of the stage `glue`: transformers on the records of a GLUE task; prints a JSON list, the score of each seed.

python benchmarks/gpu_train_glue_peer.py WEIGHTS RECORDS TASK SEEDS [--float32] [--drop_last]

The settings of benchmarks/minilm_glue.yaml: AdamW (0.9, 0.999, 1e-6), decay 0.01 but for biases and norms, 5e-5 after a tenth of
the steps, then linearly to 0, clipped to 1.0, batches of 32, 4 epochs, bf16 autocast.
"""

import argparse
import json

import numpy as np
import torch
from scipy.stats import pearsonr
from sklearn.metrics import matthews_corrcoef
from torch.nn.functional import cross_entropy, mse_loss
from transformers import AutoModelForSequenceClassification, get_linear_schedule_with_warmup, set_seed

from nlpdata import open_records

BATCH, EPOCHS, RATE = 32, 4, 5e-5


def columns(path: str) -> dict[str, torch.Tensor]:
    records = open_records(path)
    rows = records[: len(records)]
    names = {
        "input_ids": "input_ids",
        "input_mask": "attention_mask",
        "segment_ids": "token_type_ids",
        "label_ids": "labels",
    }
    return {new: torch.tensor(np.asarray(rows[old])).cuda() for old, new in names.items()}


def batch_of(data: dict, index: torch.Tensor) -> dict:
    batch = {name: values[index] for name, values in data.items()}
    longest = int(batch["attention_mask"].sum(1).max())
    return {name: values[:, :longest] if name != "labels" else values[:, 0] for name, values in batch.items()}


def train(options, train: dict, dev: dict, seed: int) -> float:
    set_seed(seed)
    regression = options.task == "stsb"
    classes = 1 if regression else int(train["labels"].max()) + 1
    model = AutoModelForSequenceClassification.from_pretrained(options.weights, num_labels=classes).cuda().train()
    plain = [p for n, p in model.named_parameters() if n.endswith("bias") or "LayerNorm" in n]
    known = set(map(id, plain))
    groups = [
        {"params": [p for p in model.parameters() if id(p) not in known], "weight_decay": 0.01},
        {"params": plain, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE, eps=1e-6, betas=(0.9, 0.999), fused=True)
    count = len(train["labels"])
    steps = count // BATCH if options.drop_last else -(-count // BATCH)
    schedule = get_linear_schedule_with_warmup(optimizer, int(0.1 * steps * EPOCHS), steps * EPOCHS)

    def logits(batch):
        inputs = {name: values for name, values in batch.items() if name != "labels"}
        with torch.autocast("cuda", torch.bfloat16, enabled=not options.float32):
            return model(**inputs).logits.float()

    for _ in range(EPOCHS):
        order = torch.randperm(count)
        for step in range(steps):
            batch = batch_of(train, order[step * BATCH : (step + 1) * BATCH].cuda())
            scores, labels = logits(batch), batch["labels"]
            loss = mse_loss(scores[:, 0], labels.float()) if regression else cross_entropy(scores, labels)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
    model.eval()
    with torch.no_grad():
        parts = [
            batch_of(dev, torch.arange(at, min(at + 256, len(dev["labels"]))).cuda())
            for at in range(0, len(dev["labels"]), 256)
        ]
        scores = torch.cat([logits(part) for part in parts]).cpu().numpy()
    labels = dev["labels"][:, 0].cpu().numpy()
    if regression:
        return float(pearsonr(scores[:, 0], labels)[0])
    best = scores.argmax(-1)
    return float(matthews_corrcoef(labels, best) if options.task == "cola" else (best == labels).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights")
    parser.add_argument("records", help="folder with train.tfrecord and dev.tfrecord")
    parser.add_argument("task")
    parser.add_argument("seeds", type=int)
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--drop_last", action="store_true")
    options = parser.parse_args()
    data = [columns(f"{options.records}/{split}.tfrecord*") for split in ("train", "dev")]
    print(json.dumps([train(options, *data, seed) for seed in range(options.seeds)]))


if __name__ == "__main__":
    main()
