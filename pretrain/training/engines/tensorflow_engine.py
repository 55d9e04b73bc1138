"""The engine on TensorFlow, with tf.distribute: one device, several of one host, several hosts, TPU."""

import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

# Arrays of more than 32 MiB otherwise come fresh from the system, page by page, for every operation: a tenth of a step on
# CPU. Read when TensorFlow makes its first array.
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "true")

import keras
import numpy as np
import tensorflow as tf

from pretrain.data.packing import PER_TOKEN
from pretrain.layers.dropout import dropout_scope
from pretrain.optimizers.average import Average
from pretrain.settings.data_section import DataConfig
from pretrain.settings.schema import ExperimentConfig, RuntimeConfig
from pretrain.training.engines.distribution import distribute, name_of
from pretrain.training.engines.engine import Engine
from pretrain.training.engines.state import (
    LOSS_SCALE_GROWTH_STEPS,
    LOSS_SCALE_START,
    build_model,
    build_updates,
    named_variables,
    rate_at,
    select_state,
    stored,
)
from pretrain.training.engines.xla_flags import flags_of_hosts

_log = logging.getLogger(__name__)
_SUM = tf.distribute.ReduceOp.SUM


class TensorFlowEngine(Engine):
    """See Engine. Makes the devices, the model and the optimizer.

    Args:
      task: what is learned.
      config: configuration of the experiment; its runtime and trainer sections are read.
      train_steps: length of the run, for the learning rate; None: no optimizer, evaluation only.
    """

    def __init__(self, task: Any, config: ExperimentConfig, train_steps: int | None = None):
        self._task, self._config, self._runtime = task, config.task, config.runtime
        self._gradients_before = set(_registered_gradients())
        distribution = distribute(config.runtime)
        self._strategy, self.host = distribution.strategy, distribution.host
        self.replicas = self._strategy.num_replicas_in_sync
        self._local_replicas = max(1, self.replicas // self.host[1])
        self._micro_steps = config.trainer.gradient_accumulation_steps
        with self._strategy.scope():
            self.model = build_model(task, config.runtime)
            self.device = name_of(self.model.weights[0].value.device)
            self._optimizer: Any = None
            self._average: Average | None = None
            self._loss_scale: _LossScale | None = None
            if train_steps is not None:
                updates = build_updates(self.model, config.trainer.optimizer_config, train_steps)
                self._optimizer, self._clip_norm, self._average = updates.optimizer, updates.clip_norm, updates.average
                # Gradients are summed over replicas before they are clipped, so not by the optimizer again.
                self._optimizer._all_reduce_sum_gradients = list
                if config.runtime.mixed_precision_dtype == "float16":
                    self._loss_scale = _LossScale(config.runtime.loss_scale)
        self._may_fall_back = config.runtime.enable_xla == "auto"
        self._make_steps(chooses_xla(config.runtime, self.replicas))

    @staticmethod
    def facts_of_host() -> dict[str, Any]:
        return {"GPUs": len(tf.config.list_physical_devices("GPU")), "XLA_FLAGS": flags_of_hosts(os.environ)}

    def _make_steps(self, xla: bool):
        self._replica_step, self.max_lengths = self._step_on_replica, None
        if xla and self.replicas == 1:
            self._replica_step = tf.function(self._step_on_replica, jit_compile=True, autograph=False)
            self.max_lengths = 8  # each length of the sequences is compiled for itself
            _log.info("step: compiled by XLA")
        elif xla:
            tf.config.optimizer.set_jit("autoclustering")
        self._train = tf.function(self._step_on_all, autograph=False, reduce_retracing=True)
        self._validate = tf.function(self._validation_on_all, autograph=False, reduce_retracing=True)
        self._count_hosts = tf.function(self._count_by_number, autograph=False)

    # ------------------------------------------------------------------------------------------------------------ steps

    def train_step(self, step: Any, batch: Mapping[str, Any], denominators: Mapping[str, Any]) -> dict[str, Any]:
        arguments = self._arguments(step, batch, denominators)
        try:
            statistics = self._call(self._train, self._config.train_data, *arguments)
        except tf.errors.OpError as error:
            if not self._may_fall_back:
                raise
            # XLA compiles before anything is computed: the state is still what it was.
            reason = str(error).strip().splitlines()[0][:200]
            _log.warning(f"XLA cannot compile this step, which is computed without it: {reason}")
            self._make_steps(xla=False)
            statistics = self._call(self._train, self._config.train_data, *arguments)
        self._may_fall_back = False
        return self._first(statistics)

    def validation_step(self, batch: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        statistics, outputs = self._call(self._validate, self._config.validation_data, self._feed(batch))
        parts = {name: self._strategy.experimental_local_results(value) for name, value in outputs.items()}
        return self._first(statistics), {
            name: np.concatenate([np.asarray(part) for part in values]) for name, values in parts.items()
        }

    def trace(self, batch: Mapping[str, Any], denominators: Mapping[str, Any]) -> None:
        self._train.get_concrete_function(*self._arguments(0, batch, denominators))

    def compile(self, batch: Mapping[str, Any], denominators: Mapping[str, Any]) -> None:
        before = self.state()
        self.train_step(0, batch, denominators)
        self.load_state(before)

    def learning_rate(self, step: Any) -> float:
        return rate_at(self._optimizer, step)

    def _call(self, function: Any, data: DataConfig, *arguments: Any) -> Any:
        """A step. Where batches differ in length, it is traced for all lengths at once, not for the first one and then again."""
        any_length = (data.trim_padding or data.group_by_length) and self.replicas == 1
        if any_length and not (tf.config.functions_run_eagerly() or function.experimental_get_tracing_count()):
            function.get_concrete_function(*map(_of_any_length, arguments))
        return function(*arguments)

    def _arguments(self, step: Any, batch: Mapping[str, Any], denominators: Mapping[str, Any]):
        return (
            tf.constant(step, tf.int64),
            self._feed(batch),
            {name: tf.constant(value, tf.float32) for name, value in denominators.items()},
        )

    def _feed(self, batch: Mapping[str, np.ndarray]) -> dict:
        """This host's arrays as tensors, one part a replica."""
        if self.replicas == 1:
            return {name: tf.constant(values) for name, values in batch.items()}
        parts = {name: np.split(values, self._local_replicas) for name, values in batch.items()}
        return {
            name: self._strategy.experimental_distribute_values_from_function(
                lambda context, split=split: tf.constant(split[context.replica_id_in_sync_group % self._local_replicas])
            )
            for name, split in parts.items()
        }

    def _first(self, statistics: Any) -> dict:
        """The statistics of one replica: they are the same on all."""
        return {name: self._strategy.experimental_local_results(value)[0] for name, value in statistics.items()}

    def _step_on_all(self, step: Any, batch: Mapping[str, Any], denominators: Mapping[str, Any]):
        return self._strategy.run(self._replica_step, args=(step, batch, denominators))

    def _step_on_replica(self, step: Any, batch: Mapping[str, Any], denominators: Mapping[str, Any]):
        replica = tf.distribute.get_replica_context()
        if self.host[1] > 1:  # each host has computed them for its part
            denominators = replica.all_reduce(_SUM, {k: v / self._local_replicas for k, v in denominators.items()})
        return self._task.train_step(_ReplicaContext(self, step), batch, denominators)

    def _count_by_number(self, number: Any):
        def count(number: Any):
            return tf.distribute.get_replica_context().all_reduce(_SUM, tf.one_hot(number, 64, dtype=tf.int32))

        return self._strategy.run(count, args=(number,))

    def _validation_on_all(self, batch: Mapping[str, Any]):
        def validate(batch: Mapping[str, Any]):
            with self._evaluated_weights():
                statistics, outputs = self._task.validation_step(self.model, batch)
            return tf.distribute.get_replica_context().all_reduce(_SUM, statistics), outputs

        return self._strategy.run(validate, args=(batch,))

    def highest(self, number: int) -> int:
        if self.host[1] == 1:
            return number
        counts = self._strategy.experimental_local_results(self._count_hosts(tf.constant(number)))[0]
        return int(np.flatnonzero(counts.numpy())[-1])

    def _evaluated_weights(self) -> contextlib.AbstractContextManager:
        """In it the model computes with the average of its weights, where evaluations use that."""
        if self._average is None or not self._average.evaluate:
            return contextlib.nullcontext()
        averaged = zip(self.model.trainable_variables, self._average.variables, strict=True)
        return keras.StatelessScope(state_mapping=[(weight, average.value) for weight, average in averaged])

    def close(self) -> None:
        """See Engine. A gradient of tf.custom_gradient stays registered for good, and with it graph, weights and optimizer."""
        registered = _registered_gradients()
        for name in registered.keys() - self._gradients_before:
            del registered[name]

    # ------------------------------------------------------------------------------------------------------------ state

    def _variables(self) -> dict:
        named = named_variables(self.model, self._optimizer, self._average)
        if self._loss_scale is not None:
            named |= {f"engine/{name}": variable for name, variable in self._loss_scale.variables().items()}
        return named

    def state(self) -> dict[str, np.ndarray]:
        return {name: stored(np.array(value.numpy())) for name, value in self._variables().items()}

    def load_state(self, state: Mapping[str, np.ndarray], weights_only: bool = False) -> None:
        own = self._variables()
        for name, array in select_state(own, state, weights_only).items():
            own[name].assign(array)


def _of_any_length(argument: Any) -> Any:
    """An argument of a step; of a batch, what one of any length is."""
    if not isinstance(argument, dict):
        return argument
    return {
        name: tf.TensorSpec([*values.shape[:-1], None], values.dtype) if name in PER_TOKEN else values
        for name, values in argument.items()
    }


def chooses_xla(runtime: RuntimeConfig, replicas: int) -> bool:
    """Whether XLA compiles the step; auto: where there is one replica, on a GPU."""
    if runtime.enable_xla == "auto":
        return replicas == 1 and bool(tf.config.list_physical_devices("GPU"))
    return runtime.enable_xla


def _registered_gradients() -> dict:
    """Name -> gradient of an operation: TensorFlow's own table. Steps differentiate by tapes, which do not look there."""
    from tensorflow.python.framework import ops

    return ops.gradient_registry._registry


class _ReplicaContext:
    """See engine.Context: one step on one replica, while it is traced."""

    def __init__(self, engine: TensorFlowEngine, step: Any):
        self._engine, self._step = engine, step
        self._replica = tf.distribute.get_replica_context()

    def value_and_grad(
        self, fn: Callable, batch: Mapping[str, Any], denominators: Mapping[str, Any]
    ) -> tuple[tuple[Any, dict[str, Any]], list[Any]]:
        count = self._engine._micro_steps
        scale = self._engine._loss_scale
        micro = {name: tf.reshape(x, _micro_shape(x.shape, count)) for name, x in batch.items()}
        weights = [variable.value for variable in self._engine.model.trainable_variables]
        names: list[str] = []

        def one(index: Any):
            with tf.GradientTape() as tape, dropout_scope(self._dropout_key(index)):
                loss, statistics = fn(self._engine.model, {k: x[index] for k, x in micro.items()}, denominators)
                scaled = loss if scale is None else loss * scale.factor
            gradients = tape.gradient(scaled, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
            names[:] = statistics
            values = tf.stack([tf.cast(value, tf.float32) for value in (loss, *statistics.values())])
            return values, [tf.convert_to_tensor(gradient) for gradient in gradients]

        values, gradients = one(0) if count == 1 else _sum_over(one, count, weights)
        values, gradients = self._replica.all_reduce(_SUM, [values, gradients])
        if scale is not None:
            gradients = [gradient / scale.factor for gradient in gradients]
        loss, *sums = tf.unstack(values, len(names) + 1)
        return (loss, dict(zip(names, sums, strict=True))), gradients

    def _dropout_key(self, micro_step: Any):
        engine = self._engine
        replica = tf.cast(self._replica.replica_id_in_sync_group, tf.int64)
        pass_number = (self._step * engine.replicas + replica) * engine._micro_steps + tf.cast(micro_step, tf.int64)
        return tf.stack([tf.cast(pass_number, tf.int32), tf.constant(engine._runtime.seed % 2**31, tf.int32)])

    def apply(self, gradients: list[Any]) -> None:
        engine, clip_norm = self._engine, self._engine._clip_norm
        norm = tf.linalg.global_norm(gradients) if clip_norm or engine._loss_scale else None
        if clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, clip_norm, use_norm=norm)
        if engine._loss_scale is None:
            self._update(gradients)
        else:
            finite = tf.math.is_finite(norm)
            engine._loss_scale.update(finite)
            self._replica.merge_call(self._apply_if, args=(finite, gradients))

    def _update(self, gradients: list[Any]) -> None:
        """The step itself: weights, then their average."""
        engine, weights = self._engine, self._engine.model.trainable_variables
        engine._optimizer.apply(gradients, weights)
        if engine._average is not None:
            averages = engine._average.variables
            before, after = ([variable.value for variable in variables] for variables in (averages, weights))
            for average, value in zip(averages, engine._average.moved(before, after, self._step), strict=True):
                average.assign(value)

    def _apply_if(self, strategy: Any, finite: Any, gradients: list[Any]):
        # A condition on a replica may hold no merge_call, and apply makes one. So the replicas merge, meet one condition,
        # and part again inside it.
        def apply() -> bool:
            strategy.extended.call_for_each_replica(self._update, args=(gradients,))
            return True

        tf.cond(strategy.experimental_local_results(finite)[0], apply, lambda: False)


def _micro_shape(shape: Any, count: int) -> list[int]:
    """A batch's shape cut into `count` parts; one dimension, that of trimmed examples or of packed rows, may be unknown."""
    return [count, -1 if shape[0] is None else shape[0] // count, *(-1 if size is None else size for size in shape[1:])]


def _sum_over(micro_step: Any, count: int, weights: Any):
    """Sums (values, gradients) of micro_step(0..count-1), which is traced once."""
    values = tf.TensorArray(tf.float32, count)
    totals = [tf.zeros(weight.shape, weight.dtype) for weight in weights]

    def body(index: Any, values: Any, totals: Any):
        value, gradients = micro_step(index)
        return index + 1, values.write(index, value), [a + b for a, b in zip(totals, gradients, strict=True)]

    _, values, totals = tf.while_loop(lambda i, *_: i < count, body, (0, values, totals), parallel_iterations=1)
    return tf.reduce_sum(values.stack(), axis=0), totals


class _LossScale:
    """The factor on the loss that keeps float16 gradients from vanishing.

    Dynamic (Micikevicius et al., "Mixed precision training", 2017): halved where a gradient overflows, and that step is
    skipped; doubled after 2000 steps without.
    """

    def __init__(self, setting: str | float):
        self._dynamic = setting == "dynamic"
        options = {"trainable": False, "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA}
        self.factor = tf.Variable(LOSS_SCALE_START if self._dynamic else float(setting), dtype=tf.float32, **options)
        self._good_steps = tf.Variable(0, dtype=tf.int64, **options)

    def variables(self) -> dict:
        return {"loss_scale": self.factor, "loss_scale_good_steps": self._good_steps}

    def update(self, finite: Any) -> None:
        if not self._dynamic:
            return
        good = tf.where(finite, self._good_steps + 1, 0)
        grown = good >= LOSS_SCALE_GROWTH_STEPS
        factor = tf.where(finite, self.factor * tf.where(grown, 2.0, 1.0), tf.maximum(self.factor / 2, 1.0))
        self.factor.assign(factor)
        self._good_steps.assign(tf.where(grown, tf.zeros_like(good), good))
