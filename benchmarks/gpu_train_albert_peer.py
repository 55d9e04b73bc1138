"""The peer of the stage `albert`: transformers' AlbertForPreTraining, torch.compile, bf16 autocast, sdpa, fused AdamW; prints JSON.

    python benchmarks/gpu_train_albert_peer.py RECORDS HELD_OUT SECONDS SEED

Logits at all positions, as the library has it; batches made in a thread, as ours. See gpu_train_albert.py.
"""

import json
import sys
import time

import torch
from gpu_train_albert import LOOKS, PROBED, RATE, SHAPE, WARMUP, planned_steps, settings
from gpu_train_packed import wait_for_turn
from torch.nn.functional import cross_entropy
from transformers import AlbertConfig, AlbertForPreTraining, get_linear_schedule_with_warmup

from pretrain.data import prefetch

torch.set_float32_matmul_precision("high")
RECORDS, HELD_OUT, SECONDS, SEED = *sys.argv[1:3], float(sys.argv[3]), int(sys.argv[4])
_, DATA, HELD = settings(RECORDS, HELD_OUT, SEED)
torch.manual_seed(SEED)
MODEL = AlbertForPreTraining(AlbertConfig(vocab_size=30000, attn_implementation="sdpa", **SHAPE)).cuda().train()
START = {name: values.clone() for name, values in MODEL.state_dict().items()}
PLAIN = {
    id(p)
    for name, p in MODEL.named_parameters()
    if name.endswith("bias") or "LayerNorm" in name or "layer_norm" in name
}


def optimizer_of(steps: int):
    """(optimizer, its schedule over that many steps)."""
    groups = [
        {"params": [p for p in MODEL.parameters() if (id(p) in PLAIN) == plain], "weight_decay": 0.0 if plain else 0.01}
        for plain in (False, True)
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=1e-6, fused=True)
    return optimizer, get_linear_schedule_with_warmup(optimizer, int(WARMUP * steps), steps)


def on_card(batch: dict) -> dict:
    """With labels (b, L), -100 where nothing is predicted."""
    batch = {
        name: torch.as_tensor(values).pin_memory().cuda(non_blocking=True).long() for name, values in batch.items()
    }
    rows, length = batch["input_ids"].shape
    places = torch.where(batch["masked_lm_weights"] > 0, batch["masked_lm_positions"], length)
    labels = torch.full((rows, length + 1), -100, device="cuda").scatter(1, places, batch["masked_lm_ids"])
    batch["labels"] = labels[:, :length].contiguous()
    return batch


def loss_of(batch: dict):
    return MODEL(
        input_ids=batch["input_ids"], attention_mask=batch["input_mask"], token_type_ids=batch["segment_ids"],
        labels=batch["labels"], sentence_order_label=batch["next_sentence_labels"][:, 0],
    ).loss  # fmt: skip


COMPILED = torch.compile(loss_of, dynamic=False)


def take(steps: int, limit: float, optimizer, schedule) -> tuple[int, float, torch.Tensor]:
    """(steps taken, seconds after the first, last loss)."""
    taken = 0
    for _, batch in prefetch(lambda step: on_card(DATA.batch(step)), range(steps), 16):
        with torch.autocast("cuda", torch.bfloat16):
            loss = COMPILED(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(MODEL.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        taken += 1
        if taken == 1:
            torch.cuda.synchronize()
            begun = time.perf_counter()
        if taken % LOOKS == 0:
            torch.cuda.synchronize()
            if time.perf_counter() - begun > limit:
                break
    torch.cuda.synchronize()
    return taken, time.perf_counter() - begun, loss.detach()


@torch.no_grad()
def evaluate() -> tuple[float, float, float]:
    """(loss of the masked tokens of held-out records, share that is right, their number)."""
    MODEL.eval()
    total = right = count = 0.0
    for step in range(HELD.steps_per_epoch):
        batch = on_card(HELD.batch(step))
        labels = torch.where(batch["is_real_example"][:, None] > 0, batch["labels"], -100)
        with torch.autocast("cuda", torch.bfloat16):
            scores = MODEL(
                input_ids=batch["input_ids"], attention_mask=batch["input_mask"], token_type_ids=batch["segment_ids"]
            ).prediction_logits
        masked = labels >= 0
        scores, labels = scores[masked].float(), labels[masked]
        total += float(cross_entropy(scores, labels, reduction="sum"))
        right += float((scores.argmax(-1) == labels).sum())
        count += len(labels)
    return total / count, right / count, count


take(3, SECONDS, *optimizer_of(1000))
wait_for_turn()
planned = planned_steps(SECONDS, take(PROBED, SECONDS, *optimizer_of(1000))[1])
MODEL.load_state_dict(START)
wait_for_turn()
taken, passed, last = take(planned, SECONDS, *optimizer_of(planned))
loss, accuracy, tokens = evaluate()
print(
    json.dumps({
        "steps": taken, "planned": planned, "seconds": passed, "last": float(last), "loss": loss, "accuracy": accuracy,
        "tokens": tokens,
    }),
    flush=True,
)  # fmt: skip
