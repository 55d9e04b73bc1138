"""The stage `albert` of gpu_train.py: a small ALBERT pretrained for equal time, ours and transformers', on the same records.

    python benchmarks/gpu_train_albert.py RECORDS HELD_OUT SECONDS SEED      # one of ours, JSON

Both take batches of 256 from the same records in the same order, with the same masks, AdamW and learning rate: it rises for a
tenth of the steps and falls to 0 at the last one, whose number follows from the time of the first steps. Compiling is not counted.
The seeds of a side share the card, so that each has a third of it for that time. What counts is the loss of the masked tokens of
held-out records.
"""

import json
import statistics
import sys
import time

from gpu_train_packed import HERE, Waiting, wait_for_turn

BATCH, RATE, WARMUP, PROBED, LOOKS = 256, 1e-3, 0.1, 100, 25
SHAPE = {
    "embedding_size": 128, "hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4, "intermediate_size": 1024,
    "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "initializer_range": 0.02, "max_position_embeddings": 512,
    "hidden_act": "gelu_new",
}  # fmt: skip


def albert(records: str, held_out: str, python: str, seconds: float, seeds: int) -> None:
    """Prints steps and held-out losses of every seed, their means, and whether ours is lower."""
    arguments = [records, held_out, seconds]
    sides = {
        "ours": [sys.executable, HERE / "gpu_train_albert.py", *arguments],
        "peer": [python, HERE / "gpu_train_albert_peer.py", *arguments],
    }
    started = {side: [Waiting([*command, seed]) for seed in range(seeds)] for side, command in sides.items()}
    for runs in started.values():
        _all(runs, "ready")
    losses = {}
    for side, runs in started.items():
        _all(runs, "go")  # the first steps, for their time
        _all(runs, "ready")
        _all(runs, "go")
        found = [each.result() for each in runs]
        for seed, result in enumerate(found):
            print(
                f"  {side}, seed {seed}: {result['steps']} steps of {result['planned']} in {result['seconds']:.1f} s, "
                f"{result['steps'] * BATCH * 128 / result['seconds'] / 1e3:.0f}k tok/s, last loss {result['last']:.3f}, "
                f"held-out masked-LM loss {result['loss']:.4f}, accuracy {result['accuracy']:.2%} ({result['tokens']:.0f} tokens)",
                flush=True,
            )
        losses[side] = [result["loss"] for result in found]
    ours, peer = (statistics.fmean(each) for each in losses.values())
    wins = sum(a < b for a, b in zip(losses["ours"], losses["peer"], strict=True))
    print(
        f"  held-out loss: ours {ours:.4f}, peer {peer:.4f}, lower for {wins} of {seeds} seeds"
        f"{'' if ours < peer else '  MISSED'}",
        flush=True,
    )


def _all(runs: list[Waiting], what: str) -> None:
    for each in runs:
        getattr(each, what)()


def settings(records: str, held_out: str, seed: int):
    """(configuration of the task, training batches, batches to evaluate)."""
    import numpy as np

    from nlpdata import open_records
    from pretrain.data import pretraining_batches
    from pretrain.registry import ENCODERS
    from pretrain.settings.data_section import DataConfig, EvalDataConfig
    from pretrain.settings.fields import choose
    from pretrain.settings.schema import ModelConfig
    from pretrain.tasks.configs import PretrainingConfig

    encoder = choose(ENCODERS, "albert", vocab_size=30000, **SHAPE)
    train = DataConfig(input_path=records, global_batch_size=BATCH, seed=seed, prefetch_buffer_size=16)
    validation = EvalDataConfig(input_path=held_out, global_batch_size=BATCH)
    config = PretrainingConfig(model=ModelConfig(encoder), train_data=train, validation_data=validation)
    assert np.shape(open_records(records)[:1]["input_ids"]) == (1, 128)
    return config, pretraining_batches(train, config), pretraining_batches(validation, config)


def planned_steps(seconds: float, probed: float) -> int:
    """Steps that fit into `seconds`, where PROBED have taken `probed`."""
    return int(0.98 * seconds * PROBED / probed)


def run(records: str, held_out: str, seconds: float, seed: int) -> dict:
    import jax

    from pretrain.data import prefetch
    from pretrain.registry import OPTIMIZERS, SCHEDULES, WARMUPS
    from pretrain.settings.fields import choose
    from pretrain.settings.schema import ExperimentConfig, RuntimeConfig
    from pretrain.settings.trainer_section import OptimizationConfig, TrainerConfig
    from pretrain.tasks.pretraining import PretrainingTask
    from pretrain.training.engines.jax_engine import JaxEngine

    config, data, held = settings(records, held_out, seed)
    task = PretrainingTask(config)
    optimization = OptimizationConfig(
        optimizer=choose(OPTIMIZERS, "adamw", bias_correction=True),
        learning_rate=choose(SCHEDULES, "polynomial", initial_learning_rate=RATE),
        warmup=choose(WARMUPS, "linear", warmup_proportion=WARMUP),
    )
    runtime = RuntimeConfig(distribution_strategy="one_device", mixed_precision_dtype="bfloat16", seed=seed)
    experiment = ExperimentConfig(task=config, runtime=runtime, trainer=TrainerConfig(optimizer_config=optimization))

    def prepare(step):
        batch = data.batch(step)
        return engine.place(batch), task.denominators(batch)

    def take(steps, limit):
        """(steps taken, seconds after the first, last statistics)."""
        taken = 0
        for step, (batch, denominators) in prefetch(prepare, range(steps), 16):
            found = engine.train_step(step, batch, denominators)
            taken += 1
            if taken == 1:  # its program was looked up
                jax.block_until_ready(found)
                begun = time.perf_counter()
            if taken % LOOKS == 0:
                jax.block_until_ready(found)
                if time.perf_counter() - begun > limit:
                    break
        jax.block_until_ready(found)
        return taken, time.perf_counter() - begun, found

    engine = JaxEngine(task, experiment, train_steps=1000)
    take(3, seconds)
    wait_for_turn()
    planned = planned_steps(seconds, take(PROBED, seconds)[1])
    engine.close()
    engine = JaxEngine(task, experiment, train_steps=planned)
    engine.compile(*(lambda batch: (batch, task.denominators(batch)))(data.batch(0)))
    wait_for_turn()
    taken, passed, found = take(planned, seconds)
    sums: dict[str, float] = {}
    for step in range(held.steps_per_epoch):
        for name, value in engine.validation_step(held.batch(step))[0].items():
            sums[name] = sums.get(name, 0.0) + float(value)
    return {
        "steps": taken,
        "planned": planned,
        "seconds": passed,
        "last": float(found["masked_lm_loss"]) / float(found["masked_lm_weight"]),
        "loss": sums["masked_lm_loss"] / sums["masked_lm_weight"],
        "accuracy": sums["masked_lm_correct"] / sums["masked_lm_weight"],
        "tokens": sums["masked_lm_weight"],
    }


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))), flush=True)
