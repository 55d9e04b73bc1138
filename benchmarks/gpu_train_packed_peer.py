"""The peer of the stage `packed`: transformers' BERT-base, torch.compile, bf16 autocast, sdpa, fused AdamW; prints JSON.

    python benchmarks/gpu_train_packed_peer.py RECORDS LENGTH ATTENTION_DROPOUT

Batches of one length: 512, to which every example is padded, or a smaller multiple of 64, of batches grouped by length. Seconds a
step, compiled for that length and eager: medians. Logits at all positions, as the library has it.
"""

import gc
import json
import statistics
import sys
import time

import torch
from gpu_train_packed import BATCH, BUCKETS, STEPS, batches_of, wait_for_turn
from transformers import BertConfig, BertForPreTraining

torch.set_float32_matmul_precision("high")
RECORDS, LENGTH, DROPOUT = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
DATA = batches_of(RECORDS, "padded" if LENGTH == 512 else "grouped")[0].for_host(0, 1, BUCKETS)
MODEL = BertForPreTraining(BertConfig(attn_implementation="sdpa", attention_probs_dropout_prob=DROPOUT)).cuda().train()
OPTIMIZER = torch.optim.AdamW(MODEL.parameters(), lr=1e-4, weight_decay=0.01, fused=True)


def batches() -> list[dict]:
    """Up to eight batches of that length, on the card."""
    made = (DATA.batch(step) for step in range(STEPS))
    return [on_card(batch) for batch in made if batch["input_ids"].shape[1] == LENGTH][:8]


def on_card(batch: dict) -> dict:
    batch = {name: torch.tensor(values).cuda().long() for name, values in batch.items()}
    labels = torch.full((BATCH, LENGTH + 1), -100, device="cuda")
    places = torch.where(batch["masked_lm_weights"] > 0, batch["masked_lm_positions"], LENGTH)
    batch["labels"] = labels.scatter(1, places, batch["masked_lm_ids"])[:, :LENGTH].contiguous()
    return batch


def loss_of(batch: dict):
    return MODEL(
        input_ids=batch["input_ids"], attention_mask=batch["input_mask"], token_type_ids=batch["segment_ids"],
        labels=batch["labels"], next_sentence_label=batch["next_sentence_labels"][:, 0],
    ).loss  # fmt: skip


def step(function, batch: dict) -> None:
    with torch.autocast("cuda", torch.bfloat16):
        loss = function(batch)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(MODEL.parameters(), 1.0)
    OPTIMIZER.step()
    OPTIMIZER.zero_grad(set_to_none=True)


def median(function, rounds: int) -> float:
    """Seconds a step: median of rounds of six, after three."""
    seconds = []
    for steps in (3, *([6] * rounds)):
        begun = time.perf_counter()
        for number in range(steps):
            step(function, BATCHES[number % len(BATCHES)])
        torch.cuda.synchronize()
        seconds.append((time.perf_counter() - begun) / steps)
    return statistics.median(seconds[1:])


BATCHES = batches()
COMPILED = torch.compile(loss_of, dynamic=False)
step(COMPILED, BATCHES[0])
gc.collect()
torch.cuda.empty_cache()
wait_for_turn()
print(json.dumps({"compiled": median(COMPILED, 3), "eager": median(loss_of, 1)}), flush=True)
