"""The peer of the stage `packed`: transformers' BERT-base, torch.compile, bf16 autocast, sdpa, fused AdamW; prints one line.

    python benchmarks/gpu_train_packed_peer.py RECORDS stock|gathered padded|grouped ATTENTION_DROPOUT

padded: every example has 512 places. grouped: the examples of 32 steps are sorted by length, and a batch is padded to its longest
example, up to a multiple of 8; compiled for any length.
"""

import sys
import time

import torch
from gpu_train_packed import BATCH, STEPS, batches_of
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForPreTraining

torch.set_float32_matmul_precision("high")
RECORDS, KIND, WAY, DROPOUT = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
DATA = batches_of(RECORDS, WAY)[0]
MODEL = BertForPreTraining(BertConfig(attn_implementation="sdpa", attention_probs_dropout_prob=DROPOUT)).cuda().train()
OPTIMIZER = torch.optim.AdamW(MODEL.parameters(), lr=1e-4, weight_decay=0.01, fused=True)


def on_card(step: int) -> dict:
    batch = {name: torch.tensor(values).cuda() for name, values in DATA.batch(step).items()}
    length = batch["input_ids"].shape[1]
    batch = {name: values.long() for name, values in batch.items()}
    labels = torch.full((BATCH, length + 1), -100, device="cuda")
    places = torch.where(batch["masked_lm_weights"] > 0, batch["masked_lm_positions"], length)
    batch["labels"] = labels.scatter(1, places, batch["masked_lm_ids"])[:, :length].contiguous()
    return batch


def stock(batch: dict):
    return MODEL(
        input_ids=batch["input_ids"], attention_mask=batch["input_mask"], token_type_ids=batch["segment_ids"],
        labels=batch["labels"], next_sentence_label=batch["next_sentence_labels"][:, 0],
    ).loss  # fmt: skip


def gathered(batch: dict):
    outputs = MODEL.bert(
        input_ids=batch["input_ids"], attention_mask=batch["input_mask"], token_type_ids=batch["segment_ids"]
    )
    hidden = outputs.last_hidden_state
    hidden = hidden.gather(1, batch["masked_lm_positions"][..., None].expand(-1, -1, hidden.shape[-1]))
    scores, pairs = MODEL.cls.predictions(hidden), MODEL.cls.seq_relationship(outputs.pooler_output)
    labels = torch.where(batch["masked_lm_weights"] > 0, batch["masked_lm_ids"], -100)
    return cross_entropy(scores.flatten(0, 1).float(), labels.flatten()) + cross_entropy(
        pairs.float(), batch["next_sentence_labels"][:, 0]
    )


LOSS = torch.compile({"stock": stock, "gathered": gathered}[KIND], dynamic=WAY == "grouped")
BATCHES = [on_card(step) for step in range(STEPS)]
REAL = sum(int(batch["input_mask"].sum()) for batch in BATCHES)
PLACES = sum(batch["input_mask"].numel() for batch in BATCHES)


def timed() -> float:
    torch.cuda.synchronize()
    start = time.time()
    for batch in BATCHES:
        with torch.autocast("cuda", torch.bfloat16):
            loss = LOSS(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(MODEL.parameters(), 1.0)
        OPTIMIZER.step()
        OPTIMIZER.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    return time.time() - start


warm = timed()
seconds = timed()
memory = torch.cuda.max_memory_allocated() / 2**30
print(
    f"HF {KIND} {WAY}, attention dropout {DROPOUT}: {REAL / seconds / 1e3:.1f}k real tok/s, {seconds / STEPS * 1e3:.1f} ms/step, "
    f"padding {1 - REAL / PLACES:.1%}, compiling pass {warm:.0f} s, {memory:.1f} GiB",
    flush=True,
)
