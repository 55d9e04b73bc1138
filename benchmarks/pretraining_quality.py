"""What a pretrained model knows of held-out records, against constants.

    python benchmarks/pretraining_quality.py MODEL_DIR 'out/train.eval.tfrecord*'

Masked-LM accuracy next to that of always predicting the most frequent masked token of these very records, over all and by
language (told from the script of a record's text, which sets Japanese, Chinese, Arabic, Hindi and Latin-script languages
apart); the accuracy of sentence pairs with its distance from 0.5 in standard deviations.
"""

import argparse
import math
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

_SCRIPTS = {"HIRAGANA": "ja", "KATAKANA": "ja", "CJK": "zh", "ARABIC": "ar", "DEVANAGARI": "hi", "LATIN": "latin"}


@dataclass
class Tally:
    """Predictions of one language: how many, how many right, and how often each token was the right one."""

    predictions: int = 0
    right: int = 0
    labels: Counter = field(default_factory=Counter)

    def add(self, labels: np.ndarray, right: np.ndarray) -> None:
        self.predictions += len(labels)
        self.right += int(right.sum())
        self.labels.update(labels.tolist())

    @property
    def constant(self) -> int:
        """Right predictions of the best constant."""
        return max(self.labels.values(), default=0)


def language(text: str) -> str:
    """ja, zh, ar, hi or latin, by the script of most letters; any tenth of kana makes it Japanese."""
    counts: Counter = Counter()
    for character in text:
        if character.isalpha():
            counts[_SCRIPTS.get(unicodedata.name(character, "").split(" ")[0], "other")] += 1
    if not counts:
        return "other"
    return "ja" if counts["ja"] * 10 >= counts.total() else counts.most_common(1)[0][0]


def measure(model_dir: str, pattern: str) -> tuple[dict[str, Tally], int, int]:
    """(language -> Tally, right sentence pairs, sentence pairs)."""
    from nlpdata.records.contract import find_meta, read_meta
    from nlpdata.tokenizers import load_tokenizer
    from pretrain.converters import assign, read_checkpoint
    from pretrain.data import pretraining_batches
    from pretrain.settings.data_section import EvalDataConfig
    from pretrain.settings.schema import ModelConfig
    from pretrain.tasks.pretraining import PretrainingConfig, PretrainingTask

    checkpoint = read_checkpoint(model_dir)
    pairs = "sentence_pair/logits/kernel" in checkpoint.weights
    data = EvalDataConfig(input_path=pattern, global_batch_size=128)
    config = PretrainingConfig(
        model=ModelConfig(checkpoint.encoder), validation_data=data, use_next_sentence_label=pairs
    )
    task = PretrainingTask(config)
    model = task.build_model()
    assign(model, checkpoint)
    batches = pretraining_batches(data, config)
    meta_file = find_meta(next(iter(sorted(Path(pattern).parent.glob(Path(pattern).name)))))
    tokenizer = load_tokenizer(read_meta(meta_file)["tokenizer"], folder=meta_file.parent)
    tallies: dict[str, Tally] = {}
    right_pairs = examples = 0
    for step in range(batches.steps_per_epoch):
        batch = batches.batch(step)
        outputs = model.predict_on_batch(batch)
        real = batch["is_real_example"].astype(bool)
        right = outputs["mlm_logits"].argmax(-1) == batch["masked_lm_ids"]
        for row in np.flatnonzero(real):
            chosen = batch["masked_lm_weights"][row] > 0
            text = tokenizer.decode(batch["input_ids"][row][batch["input_mask"][row] > 0])
            tallies.setdefault(language(text), Tally()).add(batch["masked_lm_ids"][row][chosen], right[row][chosen])
        examples += int(real.sum())
        if pairs:
            hits = outputs["sentence_logits"].argmax(-1) == batch["next_sentence_labels"][:, 0]
            right_pairs += int(hits[real].sum())
    return tallies, right_pairs, examples if pairs else 0


def report(tallies: dict[str, Tally], right_pairs: int, pairs: int) -> str:
    """The table that is printed."""
    total = Tally()
    for tally in tallies.values():
        total.predictions += tally.predictions
        total.right += tally.right
        total.labels += tally.labels
    lines = [f"{'masked tokens':24}{'number':>9}{'model':>9}{'constant':>10}{'ratio':>7}"]
    rows = [("all", total.predictions, total.right, total.constant)]
    by_language = sum(tally.constant for tally in tallies.values())
    rows.append(("all, constant a language", total.predictions, total.right, by_language))
    for name, tally in sorted(tallies.items(), key=lambda item: -item[1].predictions):
        rows.append((name, tally.predictions, tally.right, tally.constant))
    for name, number, right, constant in rows:
        ratio = right / max(constant, 1)
        lines.append(f"{name:24}{number:9,}{right / number:9.2%}{constant / number:10.2%}{ratio:6.2f}x")
    if pairs:
        deviation = 0.5 / math.sqrt(pairs)
        accuracy = right_pairs / pairs
        lines.append(f"sentence pairs: {accuracy:.4f} of {pairs:,}, 0.5 {(accuracy - 0.5) / deviation:+.1f} sigma")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir", help="a run's model_dir, or one of its checkpoints")
    parser.add_argument("records", help="held-out records: a path or quoted pattern")
    options = parser.parse_args()
    print(report(*measure(options.model_dir, options.records)))


if __name__ == "__main__":
    main()
