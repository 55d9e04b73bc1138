"""What pretraining is worth: fine-tuning from a pretrained checkpoint against the same from random weights, seed by seed.

    python benchmarks/pretraining_gain.py --corpus imdb_unsup_dev_3000.txt.gz --task SST-2 --work /tmp/gain

Trains a vocabulary and a tiny BERT (two layers of 128, masked words) on the corpus, then fine-tunes on the first rows of the
shuffled train.tsv of a GLUE folder, from those weights and from random ones, with seeds 0 to N-1 each, and scores dev.tsv.
One process; what is in the work folder is not made again.
"""

import argparse
import random
import statistics
import time
from pathlib import Path

LENGTH = 64
ENCODER = {
    "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512,
    "max_position_embeddings": LENGTH, "initializer_range": 0.09, "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}  # fmt: skip


def main() -> None:
    arguments = _arguments()
    work = Path(arguments.work)
    work.mkdir(parents=True, exist_ok=True)
    tokenizer, pretraining = prepare_pretraining(arguments.corpus, work, arguments.vocab_size)
    encoder = {"type": "bert", **ENCODER, "vocab_size": len(tokenizer.read_bytes().splitlines())}
    started = time.process_time()
    pretrain(encoder, pretraining, work / "pretrained", arguments.steps)
    print(
        f"pretraining: {arguments.steps} steps, {time.process_time() - started:.0f} CPU s (0: made before)", flush=True
    )
    labelled = prepare_task(Path(arguments.task), work, tokenizer, arguments.rows)
    started = time.process_time()
    scores = fine_tune(encoder, work / "pretrained", labelled, work / f"fine-tuned-{arguments.rows}", arguments)
    print(f"fine-tuning: {time.process_time() - started:.0f} CPU s", flush=True)
    print("\n".join(table(scores)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, help="text, one sentence a line")
    parser.add_argument("--task", required=True, help="folder of SST-2 as GLUE has it")
    parser.add_argument("--work", required=True, help="folder for what is made")
    parser.add_argument("--rows", type=int, default=1000, help="labelled rows to learn from")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=1200, help="of pretraining")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=5e-4, help="of fine-tuning")
    parser.add_argument("--vocab-size", type=int, default=4000)
    return parser.parse_args()


def prepare_pretraining(corpus: str, work: Path, vocab_size: int) -> tuple[Path, str]:
    """(vocabulary, pattern of masked-word records) of the corpus."""
    import nlpdata

    vocabulary, records = work / "vocab.txt", work / "pretraining.tfrecord"
    if not vocabulary.exists():
        nlpdata.train_tokenizer(corpus, str(work / "vocab"), vocab_size=vocab_size, type="wordpiece", workers=1)
    if not (work / "pretraining.meta.json").exists():
        options = {"objective": "none", "masking": "dynamic", "pack_across_documents": True, "max_seq_length": LENGTH}
        nlpdata.create_pretraining(corpus, str(records), str(vocabulary), workers=1, **options)
    return vocabulary, f"{records}*"


def pretrain(encoder: dict, records: str, model_dir: Path, steps: int) -> None:
    from nlpdata.cli.messages import on_standard_error
    from pretrain import experiment, run_experiment

    optimization = {"learning_rate": {"type": "polynomial", "initial_learning_rate": 1e-3}, "optimizer": "adamw"}
    layer = {
        "task": {
            "model": {"encoder": encoder},
            "use_next_sentence_label": False,
            "train_data": {"input_path": records, "global_batch_size": 32},
        },
        "trainer": {"train_steps": steps, "optimizer_config": optimization, "summary_interval": 100},
    }
    with on_standard_error():
        run_experiment(experiment("bert/pretraining", layer), model_dir, "train")


def prepare_task(task: Path, work: Path, tokenizer: Path, rows: int) -> Path:
    """The folder of the records of `rows` rows of train.tsv, and of dev.tsv."""
    import nlpdata

    folder = work / f"sst2-{rows}"
    if not (folder / "meta.json").exists():
        header, *lines = (task / "train.tsv").read_text(encoding="utf-8").splitlines()
        random.Random(0).shuffle(lines)
        part = work / f"rows-{rows}"
        part.mkdir(exist_ok=True)
        (part / "train.tsv").write_text("\n".join([header, *lines[:rows]]) + "\n", encoding="utf-8")
        (part / "dev.tsv").write_bytes((task / "dev.tsv").read_bytes())
        options = {"task": "sst2", "splits": "train,dev", "max_seq_length": LENGTH, "workers": 1}
        nlpdata.create_finetuning(str(part), str(folder), str(tokenizer), **options)
    return folder


def fine_tune(encoder: dict, pretrained: Path, records: Path, folder: Path, arguments) -> dict[str, list[float]]:
    """Start -> accuracy on the dev rows of each seed. The starts take turns, so that both are there of every finished seed."""
    from pretrain import experiment
    from pretrain.sweeps.seeds import run_each, with_seed

    layer = {
        "task": {
            "model": {"encoder": encoder},
            "train_data": {"input_path": str(records / "train.tfrecord"), "global_batch_size": 32},
            "validation_data": {"input_path": str(records / "dev.tfrecord"), "global_batch_size": 218},
        },
        "trainer": {
            "num_train_epochs": arguments.epochs,
            "tensorboard": False,
            "max_to_keep": 1,
            "optimizer_config": {"learning_rate": {"initial_learning_rate": arguments.learning_rate}},
        },
        "runtime": {"distribution_strategy": "one_device"},
    }
    runs = {}
    for seed in range(arguments.seeds):
        for start, weights in (("random", ""), ("pretrained", str(pretrained))):
            config = experiment("bert/sentence_prediction", layer, {"task": {"init_checkpoint": weights}})
            runs[f"{start}/seed-{seed}"] = with_seed(config, seed), "train_and_eval"
    results = run_each(runs, folder, folder / "results.json")
    return {
        start: [result["accuracy"] for name, result in results.items() if name.startswith(start)]
        for start in ("random", "pretrained")
    }


def table(scores: dict[str, list[float]]) -> list[str]:
    """Mean, spread and every seed of each start, and of their difference."""
    rows = scores | {"difference": [b - a for a, b in zip(scores["random"], scores["pretrained"], strict=True)]}
    lines = ["| start | mean | std | min | max | seeds |", "|---|---|---|---|---|---|"]
    for name, values in rows.items():
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        cells = [statistics.mean(values), spread, min(values), max(values)]
        each = " ".join(f"{100 * value:.1f}" for value in values)
        lines.append(f"| {name} | {' | '.join(f'{100 * cell:.2f}' for cell in cells)} | {each} |")
    return lines


if __name__ == "__main__":
    main()
