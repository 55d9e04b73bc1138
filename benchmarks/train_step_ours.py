"""Our side of train_step.py: the pretraining task on BERT-small, by the runner's engine on TensorFlow."""

import sys
import time

import numpy as np

from pretrain.encoders.bert import BertConfig
from pretrain.settings.fields import Choice
from pretrain.settings.schema import ExperimentConfig, ModelConfig, RuntimeConfig
from pretrain.tasks.pretraining import PretrainingConfig, PretrainingTask
from pretrain.training.engines.tensorflow_engine import TensorFlowEngine

SHAPE = BertConfig(
    hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048, hidden_act="gelu"
)


def make_batch() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {
        "input_ids": generator.integers(5, 30522, (32, 128)).astype(np.int32),
        "segment_ids": (np.arange(128) >= 64).astype(np.int32)[None].repeat(32, 0),
        "input_mask": np.ones((32, 128), np.int32),
        "masked_lm_positions": np.sort(np.argsort(generator.random((32, 126)), axis=1)[:, :20] + 1).astype(np.int32),
        "masked_lm_ids": generator.integers(5, 30522, (32, 20)).astype(np.int32),
        "masked_lm_weights": np.ones((32, 20), np.float32),
        "next_sentence_labels": generator.integers(0, 2, (32, 1)).astype(np.int32),
    }


def main() -> None:
    task = PretrainingTask(PretrainingConfig(model=ModelConfig(Choice("bert", SHAPE))))
    runtime = RuntimeConfig(distribution_strategy="one_device", enable_xla="--enable_xla" in sys.argv)
    config = ExperimentConfig(task=task.config, runtime=runtime)
    engine = TensorFlowEngine(task, config, train_steps=100_000)
    batch = make_batch()
    denominators = task.denominators(batch)
    for step, _ in enumerate(sys.stdin):
        start, cpu = time.perf_counter(), time.process_time()
        statistics = engine.train_step(step, batch, denominators)
        task.aggregate_logs(None, statistics)
        print(time.perf_counter() - start, time.process_time() - cpu, flush=True)


if __name__ == "__main__":
    main()
