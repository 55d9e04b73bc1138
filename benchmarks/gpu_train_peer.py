"""The peer of gpu_train.py: transformers, torch.compile, bf16 autocast, sdpa, fused AdamW, clipped to 1.0; prints one line.

    python benchmarks/gpu_train_peer.py stock|gathered bert|albert BATCH LENGTH ATTENTION_DROPOUT

stock: logits at all positions, as the library has it; gathered: the masked LM head on the masked positions only. The second
fastest of four rounds of ten steps, after eight.
"""

import sys
import time

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import AlbertConfig, AlbertForPreTraining, BertConfig, BertForPreTraining

torch.set_float32_matmul_precision("high")
KIND, NAME, BATCH, LENGTH, DROPOUT = *sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
PREDICTIONS = {128: 20, 512: 77}[LENGTH]


def build():
    """(model, its encoder)."""
    options = {"attn_implementation": "sdpa", "attention_probs_dropout_prob": DROPOUT}
    if NAME == "bert":
        model = BertForPreTraining(BertConfig(**options))
        return model.cuda().train(), model.bert
    sizes = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 30000}
    model = AlbertForPreTraining(AlbertConfig(**sizes, hidden_dropout_prob=0.1, **options))
    return model.cuda().train(), model.albert


MODEL, ENCODER = build()
GENERATOR = np.random.default_rng(0)
VOCABULARY = MODEL.config.vocab_size
ORDER = np.argsort(GENERATOR.random((BATCH, LENGTH - 2)), axis=1)[:, :PREDICTIONS] + 1
POSITIONS = torch.tensor(np.sort(ORDER)).cuda()
IDS = torch.tensor(GENERATOR.integers(5, VOCABULARY, (BATCH, LENGTH))).cuda()
SEGMENTS = torch.tensor((np.arange(LENGTH) >= LENGTH // 2).astype(np.int64)[None].repeat(BATCH, 0)).cuda()
MASK = torch.ones(BATCH, LENGTH, dtype=torch.int64).cuda()
MASKED_IDS = torch.tensor(GENERATOR.integers(5, VOCABULARY, (BATCH, PREDICTIONS))).cuda()
PAIRS = torch.tensor(GENERATOR.integers(0, 2, BATCH)).cuda()
LABELS = torch.full((BATCH, LENGTH), -100, device="cuda").scatter(1, POSITIONS, MASKED_IDS)
OPTIMIZER = torch.optim.AdamW(MODEL.parameters(), lr=1e-4, weight_decay=0.01, fused=True)


def stock():
    pairs = {"next_sentence_label" if NAME == "bert" else "sentence_order_label": PAIRS}
    return MODEL(input_ids=IDS, attention_mask=MASK, token_type_ids=SEGMENTS, labels=LABELS, **pairs).loss


def gathered():
    outputs = ENCODER(input_ids=IDS, attention_mask=MASK, token_type_ids=SEGMENTS)
    hidden = outputs.last_hidden_state
    hidden = hidden.gather(1, POSITIONS[..., None].expand(-1, -1, hidden.shape[-1]))
    if NAME == "bert":
        scores, pairs = MODEL.cls.predictions(hidden), MODEL.cls.seq_relationship(outputs.pooler_output)
    else:
        scores, pairs = MODEL.predictions(hidden), MODEL.sop_classifier(outputs.pooler_output)
    return cross_entropy(scores.flatten(0, 1).float(), MASKED_IDS.flatten()) + cross_entropy(pairs.float(), PAIRS)


LOSS = torch.compile({"stock": stock, "gathered": gathered}[KIND])


def step():
    with torch.autocast("cuda", torch.bfloat16):
        loss = LOSS()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(MODEL.parameters(), 1.0)
    OPTIMIZER.step()
    OPTIMIZER.zero_grad(set_to_none=True)
    return loss.detach()


def timed(steps: int) -> float:
    start = time.time()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return time.time() - start


warm = timed(8)
seconds = sorted(timed(10) / 10 for _ in range(4))[1]
memory = torch.cuda.max_memory_allocated() / 2**30
print(
    f"HF {KIND} {NAME} {BATCH}x{LENGTH}, attention dropout {DROPOUT}: {seconds * 1e3:.1f} ms/step, "
    f"{BATCH * LENGTH / seconds / 1e3:.0f}k tok/s, first 8 steps {warm:.0f} s, {memory:.1f} GiB, loss {float(step()):.3f}",
    flush=True,
)
