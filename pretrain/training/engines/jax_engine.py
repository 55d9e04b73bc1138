"""The engine on JAX: one compiled step over a mesh of devices, which owns the state and gives it back when asked."""

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import PartitionSpec

from pretrain.layers.dropout import dropout_scope
from pretrain.layers.fast_path import FastPath, fast_path
from pretrain.optimizers.average import Average
from pretrain.optimizers.schedules import GivenRate
from pretrain.settings.schema import ExperimentConfig, RuntimeConfig
from pretrain.training.engines.engine import Engine
from pretrain.training.engines.jax_compilation import compiler_options, keep_compiled, read_flags
from pretrain.training.engines.jax_devices import AXIS, find_devices
from pretrain.training.engines.jax_sums import sum_over_replicas, value_and_gradients
from pretrain.training.engines.state import (
    LOSS_SCALE_GROWTH_STEPS,
    LOSS_SCALE_START,
    build_model,
    build_updates,
    give_rate,
    named_variables,
    rate_at,
    select_state,
    stored,
)
from pretrain.training.engines.xla_flags import flags_of_hosts

_log = logging.getLogger(__name__)

_OF_MODEL = ("trainable", "other", "frozen")  # kinds of variables: updated, left by a forward pass, never changed
_WHOLE, _CUT = PartitionSpec(), PartitionSpec(AXIS)
# Compute capabilities of the GPUs on which the kernels were compared with the plain path (benchmarks/README.md).
_SHOWN_ON = ("9.0",)


class JaxEngine(Engine):
    """See Engine. Makes the devices, the model and the optimizer.

    A step takes the state and gives its memory to the next one. So the arrays of the model's variables are valid from the
    moment that `model` is asked for until the next step: ask again rather than keep them.

    Args:
      task: what is learned.
      config: configuration of the experiment; its runtime and trainer sections are read.
      train_steps: length of the run, for the learning rate; None: no optimizer, evaluation only.
    """

    max_lengths = 8  # each length of the sequences is compiled for itself

    def __init__(self, task: Any, config: ExperimentConfig, train_steps: int | None = None):
        self._task, self._runtime = task, config.runtime
        keep_compiled()
        self._devices = find_devices(config.runtime)
        self.host, self.replicas, self.device = self._devices.host, self._devices.count, self._devices.name
        self._micro_steps = config.trainer.gradient_accumulation_steps
        self._model = build_model(task, config.runtime)
        self._optimizer: Any = None
        self._rate: GivenRate | None = None
        self._average: Average | None = None
        self._frozen: list[Any] = []
        self._clip_norm: float | None = None
        self._engine_state: dict[str, Any] = {}
        self._dynamic_scale = config.runtime.loss_scale == "dynamic"
        if train_steps is not None:
            updates = build_updates(self._model, config.trainer.optimizer_config, train_steps)
            self._optimizer, self._clip_norm, self._average = updates.optimizer, updates.clip_norm, updates.average
            self._frozen, self._rate = updates.frozen, give_rate(updates.optimizer)
            if config.runtime.mixed_precision_dtype == "float16":
                factor = LOSS_SCALE_START if self._dynamic_scale else float(config.runtime.loss_scale)
                self._engine_state = {"loss_scale": np.float32(factor), "loss_scale_good_steps": np.int32(0)}
        self._state: dict[str, Any] | None = None  # None: the variables have it
        self._fast, why_not = choose_fast_path(config.runtime, self._devices.mesh.devices.flat[0])
        _log.info(describe_fast_path(self._fast, why_not, task, config.runtime, self._devices.platform))
        self._compiled: dict[tuple[str, FastPath | None], Callable] = {}

    @staticmethod
    def prepare() -> None:
        read_flags()

    @staticmethod
    def facts_of_host() -> dict[str, Any]:
        return {"XLA_FLAGS": flags_of_hosts(os.environ)}  # its devices are known once hosts have connected

    @property
    def model(self) -> Any:
        """The model; its variables have the values of the last step."""
        if self._state is not None:
            for kind, variables in self._variables().items():
                for variable, value in zip(variables, self._state[kind], strict=True):
                    variable.assign(value)
            self._engine_state = self._state["engine"]
            self._state = None
        return self._model

    # ------------------------------------------------------------------------------------------------------------ steps

    def place(self, batch: Mapping[str, Any]) -> "_Placed":
        if isinstance(batch, _Placed):
            return batch
        path = self._fast
        if path and self.host[1] == 1 and "input_mask" in batch:  # hosts must agree, and each sees its own part
            path = replace(path, prefix_masks=_is_prefix(np.asarray(batch["input_mask"])))
        return _Placed({name: self._spread(values) for name, values in batch.items()}, path)

    def train_step(self, step: int, batch: Mapping[str, Any], denominators: Mapping[str, float]) -> dict[str, Any]:
        placed = self.place(batch)
        train = self._compile_lazily("train", placed.path)
        self._state, statistics = train(*self._arguments(step, placed, denominators))
        return statistics

    def validation_step(self, batch: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        placed, state = self.place(batch), self._taken()
        averaged = self._average is not None and self._average.evaluate
        weights = {kind: state[kind] for kind in _OF_MODEL}
        if averaged:
            weights["trainable"] = state["average"]
        statistics, outputs = self._compile_lazily("validate", placed.path)(weights, dict(placed))
        return statistics, {name: _local_part(values) for name, values in outputs.items()}

    def trace(self, batch: Mapping[str, Any], denominators: Mapping[str, float]) -> None:
        placed = self.place(batch)
        self._compile_lazily("train", placed.path).trace(*self._arguments(0, placed, denominators))

    def compile(self, batch: Mapping[str, Any], denominators: Mapping[str, float]) -> None:
        placed = self.place(batch)
        self._compile_lazily("train", placed.path).lower(*self._arguments(0, placed, denominators)).compile()

    def learning_rate(self, step: int) -> float:
        return rate_at(self._optimizer, step, jax.jit)  # JAX would compile each of its operations alone

    def highest(self, number: int) -> int:
        return int(process_allgather(np.int32(number)).max()) if self.host[1] > 1 else number

    def close(self) -> None:
        self._compiled, self._state = {}, None

    def _compile_lazily(self, what: str, path: FastPath | None) -> Any:
        """The step or the validation on all replicas, for batches that may take that path."""
        if (what, path) not in self._compiled:
            function: Callable
            donated: tuple[int, ...]
            in_specs: tuple[PartitionSpec, ...]
            if what == "train":
                denominators = _CUT if self.host[1] > 1 else _WHOLE  # each host has computed them for its part
                function, donated = self._step, (0,)
                in_specs, out_specs = (_WHOLE, _WHOLE, _CUT, denominators, _WHOLE), (_WHOLE, _WHOLE)
            else:
                function, donated = self._validation, ()
                in_specs, out_specs = (_WHOLE, _CUT), (_WHOLE, _CUT)

            def on_replica(*arguments):
                with fast_path(path):
                    return function(*arguments)

            mapped = jax.shard_map(
                on_replica, mesh=self._devices.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
            )
            options = compiler_options(self._devices.platform, self._devices.count)
            self._compiled[what, path] = jax.jit(mapped, donate_argnums=donated, compiler_options=options)
        return self._compiled[what, path]

    def _arguments(self, step: int, batch: "_Placed", denominators: Mapping[str, float]) -> tuple:
        values: dict[str, Any]
        if self.host[1] > 1:
            local = self.replicas // self.host[1]
            values = {k: self._spread(np.full(local, v / local, np.float32)) for k, v in denominators.items()}
        else:
            values = {name: np.float32(value) for name, value in denominators.items()}
        state = self._taken()
        return state, np.int32(step), dict(batch), values, self._rates(state)

    def _rates(self, state: Mapping[str, Any]) -> tuple:
        """The learning rate of the next step, as data: a compiled step with the length of the run in it would fit no other run."""
        if self._rate is None:
            return ()
        taken = next(i for i, each in enumerate(self._optimizer.variables) if each is self._optimizer.iterations)
        return (self._compiled_rate(state["optimizer"][taken]),)

    @cached_property
    def _compiled_rate(self) -> Callable:
        """The schedule: to ask jax.jit for it before each step takes more than ten times as long as to call it."""
        return jax.jit(self._rate)

    def _spread(self, values: Any) -> jax.Array:
        """This host's array as its part of one that is cut over all devices."""
        return jax.make_array_from_process_local_data(self._devices.cut(), np.asarray(values))

    def _step(self, state, step, batch, denominators, rates):
        """One step, on one replica."""
        if self.host[1] > 1:
            denominators = jax.lax.psum({name: value[0] for name, value in denominators.items()}, AXIS)
        context = _ReplicaContext(self, state, step)
        with self._rate.given(*rates) if self._rate else nullcontext():
            statistics = self._task.train_step(context, batch, denominators)
        return context.state, statistics

    def _validation(self, weights, batch):
        with keras.StatelessScope(state_mapping=self._mapping(weights)):
            statistics, outputs = self._task.validation_step(self._model, batch)
        return jax.lax.psum(statistics, AXIS), outputs

    # ------------------------------------------------------------------------------------------------------------ state

    def _variables(self) -> dict[str, list]:
        """The variables, by what a step does to them."""
        frozen = {id(variable) for variable in self._frozen}
        return {
            "trainable": self._model.trainable_variables,
            "other": [each for each in self._model.non_trainable_variables if id(each) not in frozen],
            "frozen": self._frozen,
            "optimizer": [] if self._optimizer is None else self._optimizer.variables,
            "average": [] if self._average is None else self._average.variables,
        }

    def _mapping(self, state) -> list[tuple]:
        variables = self._variables()
        return [pair for kind in _OF_MODEL for pair in zip(variables[kind], state[kind], strict=True)]

    def _taken(self) -> dict[str, Any]:
        """The state on the devices, taken from the variables where they have it."""
        if self._state is None:
            values = {kind: [variable.value for variable in each] for kind, each in self._variables().items()}
            state = {**values, "engine": self._engine_state}
            self._state = jax.tree.map(self._copy, state)
        return self._state

    def _copy(self, value):
        """A copy on every device: the step may overwrite it."""
        value = np.array(value)
        return jax.make_array_from_callback(value.shape, self._devices.copied(), lambda index: value[index])

    def state(self) -> dict[str, np.ndarray]:
        taken = self._state or {}  # read where it is: the next step then need not take it from the variables again
        values = {
            id(variable): value
            for kind, variables in self._variables().items()
            for variable, value in zip(variables, taken.get(kind, ()), strict=bool(taken))
        }
        variables = named_variables(self._model, self._optimizer, self._average)
        named = {name: stored(np.array(values.get(id(each), each.value))) for name, each in variables.items()}
        return named | {
            f"engine/{name}": np.array(value) for name, value in taken.get("engine", self._engine_state).items()
        }

    def load_state(self, state: Mapping[str, np.ndarray], weights_only: bool = False) -> None:
        own = named_variables(self.model, self._optimizer, self._average)
        engine = {f"engine/{name}": value for name, value in self._engine_state.items()}
        for name, array in select_state(own | engine, state, weights_only).items():
            if name in own:
                own[name].assign(array)
            else:
                self._engine_state[name.removeprefix("engine/")] = array.astype(engine[name].dtype)


class _Placed(dict):
    """A batch on the devices, and the fast path that it may take."""

    def __init__(self, arrays: Mapping, path: FastPath | None):
        super().__init__(arrays)
        self.path = path


def _is_prefix(mask: np.ndarray) -> bool:
    """Whether every row of a mask (..., L) is ones, then zeros."""
    return bool((mask[..., 1:] <= mask[..., :-1]).all())


def choose_fast_path(runtime: RuntimeConfig, device: Any) -> tuple[FastPath | None, str]:
    """(the fast path of a run, before its batches are known; why it takes none, else empty)."""
    capability = getattr(device, "compute_capability", "")
    if runtime.fused_kernels is False:
        return None, "runtime.fused_kernels is false"
    if device.platform != "gpu" or "NVIDIA" not in device.device_kind.upper():
        return None, "they are for NVIDIA GPUs"
    if runtime.mixed_precision_dtype == "float32":
        return None, "they are for bfloat16 and float16"
    if runtime.fused_kernels == "auto" and capability not in _SHOWN_ON:
        return None, (
            f"untried on compute capability {capability or 'unknown'}; runtime.fused_kernels=true uses them all the same"
        )
    try:
        from pretrain.layers import attention_kernel, kernels  # noqa: F401
    except ImportError as error:
        return None, f"JAX {jax.__version__} lacks what they are written in ({error})"
    return FastPath(), ""


def describe_fast_path(path: FastPath | None, why_not: str, task: Any, runtime: RuntimeConfig, platform: str) -> str:
    """One line: attention, dropout, what is fused, precision."""
    encoder = getattr(getattr(task.config, "model", None), "encoder", None)
    rate = getattr(getattr(encoder, "options", None), "attention_probs_dropout_prob", 0.0)
    attention, dropout = "plain", "the device's generator" if platform != "cpu" else "a counter hash"
    rest = f"XLA alone; no kernels: {why_not}"
    if path is not None:
        attention = (
            "our own kernel, with its dropout (plain at lengths that are not multiples of 64)" if rate else "cuDNN"
        )
        variant = getattr(getattr(encoder, "options", None), "attention", "standard")
        attention = attention if variant == "standard" else f"plain ({variant} has no kernel)"
        dropout, rest = "a counter hash in the kernels", "layer norm, activation and bias in kernels"
    return f"step: {runtime.mixed_precision_dtype}; attention: {attention}; dropout: {dropout}; fusion: {rest}"


def _local_part(values: jax.Array) -> np.ndarray:
    """This host's part of an array that is cut over all devices."""
    parts = sorted(values.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return np.concatenate([np.asarray(shard.data) for shard in parts])


class _ReplicaContext:
    """See engine.Context: one step on one replica, while it is traced."""

    def __init__(self, engine: JaxEngine, state: Mapping, step):
        self.state, self._engine, self._step = dict(state), engine, step

    def value_and_grad(
        self, fn: Callable, batch: Mapping[str, Any], denominators: Mapping[str, Any]
    ) -> tuple[tuple[Any, dict[str, Any]], list[Any]]:
        engine, count = self._engine, self._engine._micro_steps
        scale = self.state["engine"].get("loss_scale")

        def loss_of(trainable, other, index, micro):
            mapping = engine._mapping({"trainable": trainable, "other": other, "frozen": self.state["frozen"]})
            with keras.StatelessScope(state_mapping=mapping) as scope, dropout_scope(self._dropout_key(index)):
                loss, statistics = fn(engine._model, micro, denominators)
            after = [scope.get_current_value(variable) for variable in engine._variables()["other"]]
            values = jax.tree.map(lambda value: jnp.asarray(value, jnp.float32), (loss, statistics))
            return loss if scale is None else loss * scale, (values, after)

        # Sums over micro-steps are of float32.
        differentiate = value_and_gradients(loss_of) if count == 1 else jax.value_and_grad(loss_of, has_aux=True)

        def one(other, index, micro):
            (_, (values, other)), gradients = differentiate(self.state["trainable"], other, index, micro)
            return other, (values, gradients)

        other = self.state["other"]
        if count == 1:
            other, (values, gradients) = one(other, 0, batch)
        else:
            other, (values, gradients) = _sum_over(one, other, _cut_micro(batch, count), count)
        values = jax.lax.psum(values, AXIS)
        gradients = sum_over_replicas(gradients)
        self.state["other"] = self._agreed(other)
        if scale is not None:
            gradients = [gradient / scale for gradient in gradients]
        return values, gradients

    def _agreed(self, after: list) -> list:
        """What a forward pass left in variables that are not trained: the replicas' mean of what changed."""
        pairs = zip(self.state["other"], after, strict=True)
        floats = jnp.floating
        return [
            jax.lax.pmean(new, AXIS) if new is not old and jnp.issubdtype(new.dtype, floats) else new
            for old, new in pairs
        ]

    def _dropout_key(self, micro_step):
        engine = self._engine
        pass_number = (self._step * engine.replicas + jax.lax.axis_index(AXIS)) * engine._micro_steps + micro_step
        return jnp.stack([jnp.asarray(pass_number, jnp.int32), jnp.int32(engine._runtime.seed % 2**31)])

    def apply(self, gradients: list[Any]) -> None:
        engine, clip_norm, own = self._engine, self._engine._clip_norm, self.state["engine"]
        if clip_norm or own:
            norm = jnp.sqrt(sum(jnp.sum(jnp.square(gradient)) for gradient in gradients))
        if clip_norm:
            factor = clip_norm / jnp.maximum(norm, clip_norm)
            gradients = [gradient * factor for gradient in gradients]

        def update(trainable, optimizer, average):
            trainable, optimizer = engine._optimizer.stateless_apply(optimizer, gradients, trainable)
            if engine._average is not None:
                average = engine._average.moved(average, trainable, self._step)
            return trainable, optimizer, average

        kinds = ("trainable", "optimizer", "average")
        before = [self.state[kind] for kind in kinds]
        if not own:
            after = update(*before)
        else:
            finite = jnp.isfinite(norm)
            after = jax.lax.cond(finite, update, lambda *kept: kept, *before)
            if engine._dynamic_scale:
                self.state["engine"] = _next_scale(own, finite)
        self.state |= zip(kinds, after, strict=True)


def _cut_micro(batch: Mapping, count: int) -> dict:
    return {name: x.reshape(count, x.shape[0] // count, *x.shape[1:]) for name, x in batch.items()}


def _sum_over(one, other, micro: dict, count: int):
    """(other, sums) of one(other, index, micro-batch) over the micro-steps; it is traced once."""
    first = {name: x[0] for name, x in micro.items()}
    shapes = jax.eval_shape(one, other, jnp.int32(0), first)[1]
    zeros = jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), shapes)

    def body(carry, item):
        other, totals = carry
        other, values = one(other, *item)
        return (other, jax.tree.map(jnp.add, totals, values)), None

    (other, totals), _ = jax.lax.scan(body, (other, zeros), (jnp.arange(count, dtype=jnp.int32), micro))
    return other, totals


def _next_scale(scale: dict, finite) -> dict:
    """The loss scale after a step: halved where a gradient overflowed, doubled after many steps without."""
    good = jnp.where(finite, scale["loss_scale_good_steps"] + 1, 0)
    grown = good >= LOSS_SCALE_GROWTH_STEPS
    factor = scale["loss_scale"]
    factor = jnp.where(finite, factor * jnp.where(grown, 2.0, 1.0), jnp.maximum(factor / 2, 1.0))
    return {"loss_scale": factor, "loss_scale_good_steps": jnp.where(grown, 0, good)}
