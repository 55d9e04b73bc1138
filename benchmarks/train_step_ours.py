"""Our side of train_step.py: the pretraining task on BERT-small, in TensorFlow."""

import sys
import time

import numpy as np
import tensorflow as tf

from pretrain.config import Choice, ModelConfig, OptimizationConfig
from pretrain.encoders.bert import BertConfig
from pretrain.layers.dropout import dropout_scope
from pretrain.optimizers import build_optimizer
from pretrain.tasks.pretraining import PretrainingConfig, PretrainingTask


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
    jit = "--jit" in sys.argv
    jit_apply = "--jit-apply" in sys.argv
    act = "gelu_tanh" if "--tanh" in sys.argv else "gelu"
    shape = BertConfig(
        hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048, hidden_act=act
    )
    task = PretrainingTask(PretrainingConfig(model=ModelConfig(Choice("bert", shape))))
    model = task.build_model()
    optimizer, clip_norm = build_optimizer(OptimizationConfig(), 100_000)
    optimizer.build(model.trainable_variables)
    weights = [variable.value for variable in model.trainable_variables]

    def apply(gradients, factor):
        optimizer.apply([g * factor for g in gradients], model.trainable_variables)

    if jit_apply:
        apply = tf.function(apply, jit_compile=True)

    @tf.function(jit_compile=jit)
    def train_step(step, batch, denominators):
        with tf.GradientTape() as tape, dropout_scope(tf.stack([step, 1])):
            loss, statistics = task.loss(model, batch, denominators)
        gradients = [tf.convert_to_tensor(each) for each in tape.gradient(loss, weights)]
        apply(gradients, clip_norm / tf.maximum(tf.linalg.global_norm(gradients), clip_norm))
        return loss, statistics

    batch = make_batch()
    denominators = {name: tf.constant(value) for name, value in task.denominators(batch).items()}
    tensors = {name: tf.constant(value) for name, value in batch.items()}
    for step, _ in enumerate(sys.stdin):
        start = time.perf_counter()
        loss, _ = train_step(tf.constant(step, tf.int32), tensors, denominators)
        float(loss)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
