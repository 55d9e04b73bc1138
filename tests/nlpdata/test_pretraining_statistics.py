"""Statistics of our examples against those of google-research/albert's create_pretraining_data.py on the same corpus.

The stored statistics are one run of the original with dupe_factor 8. Ours come from many seeds, which gives the mean
and the standard deviation of each statistic; the original must be a plausible draw from that.
"""

import json
from collections import Counter

import numpy as np
import pytest

from nlpdata.tokenizers import load_tokenizer
from tests.nlpdata.pretraining_helpers import build_all
from tests.shared import shared

SEEDS = 20


def histogram(prefix: str, values, top: int) -> dict[str, float]:
    """Shares of the values 1..top; what is above counts as top."""
    counts = np.bincount(np.minimum(values, top), minlength=top + 1)
    return {f"{prefix}/{i}": counts[i] / counts.sum() for i in range(1, top + 1)}


def masked_runs(columns):
    """Pieces and words of every maximal run of adjacent masked pieces; a word of which a part is masked counts."""
    row, slot = np.nonzero(columns["masked_lm_weights"])
    position = columns["masked_lm_positions"][row, slot].astype(np.int64)
    flat = row * (columns["input_ids"].shape[1] + 1) + position
    begin = np.concatenate([[True], np.diff(flat) != 1])
    run = np.cumsum(begin) - 1
    starts_word = columns["token_boundary"][row, position].astype(bool)
    return np.bincount(run), np.bincount(run, starts_word | begin).astype(np.int64)


def summarise(columns, mask_id: int, dupe: int, max_seq_length: int) -> dict[str, float]:
    """The statistics of a set of records."""
    weights, ids = columns["masked_lm_weights"], columns["input_ids"]
    lengths = columns["input_mask"].sum(axis=1, dtype=np.int64)
    predictions = weights.sum(axis=1).astype(np.int64)
    row, slot = np.nonzero(weights)
    position = columns["masked_lm_positions"][row, slot]
    label, now = columns["masked_lm_ids"][row, slot], ids[row, position]
    pieces, words = masked_runs(columns)
    found = {
        "instances_per_dupe": len(ids) / dupe,
        "label1_fraction": columns["next_sentence_labels"].mean(),
        "mean_seq_len": lengths.mean(),
        "frac_len_eq_max": (lengths == max_seq_length).mean(),
        "mask_split/mask": (now == mask_id).mean(),
        "mask_split/keep": (now == label).mean(),
        "num_predictions_mean": predictions.mean(),
        "masked_tokens_over_tokens_incl_special": predictions.sum() / lengths.sum(),
        "mean_per_instance_ratio": (predictions / lengths).mean(),
        "segment_a_mean": (columns["input_mask"] & (1 - columns["segment_ids"])).sum(axis=1).mean(),
        **histogram("pieces", pieces, 7),
        **histogram("words", words, 5),
    }
    deciles = np.bincount(position.astype(np.int64) * 10 // lengths[row], minlength=10)
    found.update({f"decile/{i}": share for i, share in enumerate(deciles / deciles.sum())})
    return {name: float(value) for name, value in found.items()}


def original_statistics(stats: dict) -> dict[str, float]:
    """The same statistics from a stored file."""

    def shares(name: str, prefix: str, top: int):
        counts = Counter()
        for value, count in stats[name].items():
            counts[min(int(value), top)] += count
        return {f"{prefix}/{i}": counts[i] / counts.total() for i in range(1, top + 1)}

    def mean(name: str) -> float:
        values = {int(value): count for value, count in stats[name].items()}
        return sum(value * count for value, count in values.items()) / sum(values.values())

    plain = (
        "instances_per_dupe",
        "label1_fraction",
        "mean_seq_len",
        "frac_len_eq_max",
        "masked_tokens_over_tokens_incl_special",
        "mean_per_instance_ratio",
    )
    deciles = stats["masked_position_decile_hist"]
    return {
        **{name: stats[name] for name in plain},
        "mask_split/mask": stats["mask_split"]["mask"],
        "mask_split/keep": stats["mask_split"]["keep"],
        "num_predictions_mean": mean("num_predictions_hist"),
        "segment_a_mean": mean("segment_a_len_hist"),
        **shares("masked_run_len_pieces_hist", "pieces", 7),
        **shares("masked_run_len_words_hist", "words", 5),
        **{
            f"decile/{i}": count / sum(deciles.values()) for i, count in sorted((int(k), v) for k, v in deciles.items())
        },
    }


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(shared("oracle", "spm", "30k-clean.model"), do_lower_case=True)


VARIANTS = {
    "albert_sop": {"objective": "sop"},
    "albert_sop_longngram": {"objective": "sop", "favor_shorter_ngram": False},
    "albert_sop_nowwm": {"objective": "sop", "whole_word": False},
    "albert_randomnext": {"objective": "nsp"},
}


def deviations(variant, length, predictions, tokenizer) -> dict[str, float]:
    """Distance of the original from our mean, in standard deviations of a single run of ours."""
    name = f"stats_{variant}_corpus_60docs_L{length}.json"
    original = original_statistics(json.loads(shared("oracle", "create_pretraining", name).read_text()))
    corpus = shared("oracle", "create_pretraining", "corpus_60docs.txt")
    runs = []
    for seed in range(SEEDS):
        built = build_all(
            corpus,
            tokenizer,
            max_seq_length=length,
            max_predictions_per_seq=predictions,
            dupe_factor=8,
            seed=seed,
            **VARIANTS[variant],
        )
        runs.append(summarise(built.columns, tokenizer.mask_id, 8, length))
    found = {}
    for statistic, value in original.items():
        ours = np.array([run[statistic] for run in runs])
        sigma = ours.std(ddof=1) * np.sqrt(1 + 1 / SEEDS)
        found[statistic] = float((value - ours.mean()) / sigma)
        print(
            f"{variant} L{length} {statistic}: original {value:.5f} ours {ours.mean():.5f} +- {sigma:.5f}"
            f" ({found[statistic]:+.1f})"
        )
    return found


@pytest.mark.parametrize(("length", "predictions"), [(128, 20), (64, 10)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_original(variant, length, predictions, tokenizer):
    found = deviations(variant, length, predictions, tokenizer)
    assert {name: z for name, z in found.items() if abs(z) > 4} == {}
