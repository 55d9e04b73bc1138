"""Kernels for GPUs, run by Pallas' interpreter on the CPU: equal to the plain operations. In the process on JAX (test_on_jax)."""

import functools
import sys
from dataclasses import dataclass

import keras
import numpy as np
import pytest

if keras.backend.backend() != "jax":
    pytest.skip("needs Keras on JAX", allow_module_level=True)

import jax
import jax.numpy as jnp

from pretrain.encoders.model import build_encoder, new_model
from pretrain.layers import activations, kernels
from pretrain.layers.dropout import dropout_scope
from pretrain.layers.fast_path import FastPath, attend, fast_path
from pretrain.layers.gated_feed_forward import GatedFeedForward
from pretrain.layers.talking_heads import TalkingHeads
from pretrain.layers.transformer import TransformerLayer
from pretrain.settings.schema import RuntimeConfig
from pretrain.tasks.pretraining import PretrainingConfig, PretrainingTask
from pretrain.training.engines.jax_engine import _is_prefix, choose_fast_path, describe_fast_path
from tests.pretrain.runs import tiny

LENGTH = 64


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


@pytest.mark.parametrize("activation", [activations.gelu, activations.gelu_tanh])
def test_activation_and_gradients(activation):
    h, bias, weight = normal(0, 12, 96) * 3, normal(1, 96), normal(2, 12, 96)

    def of(function):
        return jax.jit(jax.value_and_grad(lambda h, bias: jnp.sum(function(h, bias) * weight), (0, 1)))(h, bias)

    expected = of(lambda h, bias: activation(h + bias))
    found = of(lambda h, bias: kernels.bias_activation(h, bias, activation, True))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5), expected, found)


def test_dense_and_gradients():
    x, kernel, bias = normal(0, 24, 16), normal(1, 16, 48), normal(2, 48)

    def of(function):
        return jax.jit(jax.grad(lambda *a: jnp.sum(jnp.sin(function(*a))), (0, 1, 2)))(x, kernel, bias)

    expected = of(lambda x, kernel, bias: x @ kernel + bias)
    found = of(lambda *a: kernels.dense(*a, True))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), expected, found)


def test_a_model_and_its_gradients_with_dropout():
    """Attention, norms and activations in kernels, sequences of several lengths, the same dropout: the same numbers."""
    encoder = build_encoder(tiny("albert", max_position_embeddings=LENGTH, hidden_act="gelu"))
    model = new_model(encoder, {}, seed=1)
    ids = np.random.default_rng(0).integers(5, 200, (2, LENGTH)).astype(np.int32)
    mask = (np.arange(LENGTH) < np.array([[64], [33]])).astype(np.int32)
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": (np.arange(LENGTH) >= 30) * np.ones_like(ids)}
    variables = model.trainable_variables
    weight = normal(3, 2, LENGTH, 32)

    def loss_and_gradients(path):
        def loss(values):
            key = jnp.array([3, 4], jnp.int32)
            mapping = zip(variables, values, strict=True)
            with keras.StatelessScope(state_mapping=mapping), dropout_scope(key), fast_path(path):
                return jnp.sum(model(inputs, training=True)["sequence_output"] * weight * mask[..., None])

        return jax.jit(jax.value_and_grad(loss))([variable.value for variable in variables])

    expected, gradients = loss_and_gradients(None)
    found, others = loss_and_gradients(FastPath(cudnn=False, interpret=True))
    assert float(found) == pytest.approx(float(expected), rel=1e-5)
    assert any(float(jnp.abs(gradient).max()) > 0.1 for gradient in gradients)
    for variable, one, other in zip(variables, gradients, others, strict=True):
        atol = 1e-6 + 1e-4 * float(jnp.abs(one).max())  # the gradient of the key's bias is 0
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=atol, err_msg=variable.path)


def test_a_layer_of_talking_heads_and_gates():
    """No kernel computes its attention; what surrounds it takes the fast path."""
    layer = TransformerLayer(
        name="layer",
        hidden_size=32,
        num_attention_heads=2,
        intermediate_size=64,
        hidden_act="gelu",
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        layer_norm_eps=1e-12,
        attention=TalkingHeads,
        feed_forward=GatedFeedForward,
    )
    layer.build()
    for at, weight in enumerate(layer.weights):
        weight.assign(normal(at, *weight.shape) * 0.3)
    x, mask_adder = normal(1, 2, LENGTH, 32), jnp.where(jnp.arange(LENGTH) < 40, 0.0, -10000.0)[None, None, None]

    def computed(path):
        @jax.jit
        def outputs(x, mask_adder):
            with dropout_scope(jnp.array([3, 4], jnp.int32)), fast_path(path):
                return layer(x, mask_adder, training=True)

        return np.asarray(outputs(x, mask_adder))

    expected = computed(None)
    np.testing.assert_allclose(computed(FastPath(cudnn=False, interpret=True)), expected, rtol=1e-4, atol=1e-4)
    assert np.abs(expected).max() > 0.5
    job = PretrainingTask(PretrainingConfig(model={"encoder": {"type": "bert", "attention": "talking_heads"}}))
    line = describe_fast_path(FastPath(), "", job, RuntimeConfig(mixed_precision_dtype="bfloat16"), "gpu")
    assert "attention: plain (talking_heads has no kernel)" in line


def test_every_row_is_written_whatever_the_number_of_programs(monkeypatch):
    """The interpreter starts with results that are not numbers, so a row that no program writes shows.

    Three programs have 44 rows of the norm each, one more than there are; two have two tiles of the sums each, of which there
    are three, the last of three rows.
    """
    rows, size = 131, 96
    monkeypatch.setattr(kernels, "_PROGRAMS", 3)
    assert kernels._shares(rows, 3) == (3, 44)
    assert kernels._columns_of(rows, size) == (64, 32, 2, 2)
    x, h, upstream = (normal(seed, rows, size) for seed in range(3))
    bias, gamma, beta, key = normal(3, size), normal(4, size), normal(5, size), jnp.array([1, 2], jnp.uint32)
    np.testing.assert_allclose(kernels.column_sums(x, True), x.sum(0), rtol=1e-5, atol=1e-4)

    def agree(fused, plain, *arguments):
        @functools.partial(jax.jit, static_argnums=0)
        def of(function, *arguments):
            outputs, gradients = jax.vjp(function, *arguments)
            return outputs, *gradients(upstream)

        found, expected = of(fused, *arguments), of(plain, *arguments)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), found, expected)

    def norm(x, h, bias, gamma, beta):
        centred = x + h + bias - jnp.mean(x + h + bias, axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-12) * gamma + beta

    agree(lambda *a: kernels.residual_norm(*a, key, 0.0, 1e-12, True), norm, x, h, bias, gamma, beta)
    fused = lambda h, bias: kernels.bias_activation(h, bias, activations.gelu, True)  # noqa: E731
    agree(fused, lambda h, bias: activations.gelu(h + bias), h, bias)


@pytest.mark.parametrize("limit", [1, 2, 682, 1365, 2048])
def test_programs_share_all_tiles(limit):
    for tiles in (*range(1, 3000), 4096, 4928, 8192, 32767, 32768, 32769, 98304):
        programs, turns = kernels._shares(tiles, limit)
        assert programs <= limit
        assert (programs - 1) * turns < tiles <= programs * turns


@pytest.mark.parametrize("size", [768, 3072, 512, 1000, 96, 30522])
def test_tiles_have_all_rows_and_columns(size):
    for rows in (32768, 8192, 4928, 24, 7, 1):
        height, columns, programs, turns = kernels._columns_of(rows, size)
        assert height * programs * turns >= rows
        assert size % columns == 0
        assert {each & (each - 1) for each in (height, columns)} == {0}  # Triton takes powers of two


def test_what_no_kernel_can_do_is_done_plainly():
    from pretrain.layers.dropout import Dropout

    adder = jnp.zeros((2, 1, 1, 30))
    heads = normal(0, 2, 30, 2, 16)
    assert attend(heads, heads, heads, adder, None, Dropout(0.1), training=True) is None  # no scope
    with fast_path(FastPath(interpret=True)), dropout_scope(jnp.array([1, 2])):
        assert (
            attend(heads, heads, heads, adder, None, Dropout(0.1), training=True) is None
        )  # 30 is not a multiple of the block


@dataclass(frozen=True)
class Device:
    platform: str = "gpu"
    device_kind: str = "NVIDIA H200"
    compute_capability: str = "9.0"


@pytest.mark.parametrize(
    ("runtime", "device", "why_not"),
    [
        ({}, Device(), ""),
        ({"mixed_precision_dtype": "float16"}, Device(), ""),
        ({"fused_kernels": True}, Device(device_kind="NVIDIA A100-SXM4-40GB", compute_capability="8.0"), ""),
        (
            {},
            Device(device_kind="NVIDIA A100-SXM4-40GB", compute_capability="8.0"),
            "untried on compute capability 8.0",
        ),
        ({"fused_kernels": False}, Device(), "runtime.fused_kernels is false"),
        ({"mixed_precision_dtype": "float32"}, Device(), "they are for bfloat16 and float16"),
        ({}, Device("cpu", "cpu", ""), "they are for NVIDIA GPUs"),
        ({"fused_kernels": True}, Device("tpu", "TPU v5", ""), "they are for NVIDIA GPUs"),
        ({}, Device(device_kind="AMD Instinct MI300X", compute_capability="9.4"), "they are for NVIDIA GPUs"),
    ],
)
def test_the_engine_takes_it_where_it_can_and_tells_why_not(runtime, device, why_not):
    runtime = RuntimeConfig(**{"mixed_precision_dtype": "bfloat16"} | runtime)
    path, found = choose_fast_path(runtime, device)
    assert found.startswith(why_not)
    assert (path is None) == bool(found) == bool(why_not)
    line = describe_fast_path(path, found, PretrainingTask(PretrainingConfig()), runtime, device.platform)
    assert line.startswith(f"step: {runtime.mixed_precision_dtype}; attention: ")
    assert line.endswith(f"XLA alone; no kernels: {found}" if why_not else "layer norm, activation and bias in kernels")


def test_a_jax_without_what_the_kernels_are_written_in(monkeypatch):
    monkeypatch.setitem(sys.modules, "pretrain.layers.kernels", None)
    monkeypatch.delattr("pretrain.layers.kernels", raising=False)
    path, why_not = choose_fast_path(RuntimeConfig(mixed_precision_dtype="bfloat16"), Device())
    assert path is None
    assert why_not.startswith(f"JAX {jax.__version__} lacks what they are written in (")


@pytest.mark.parametrize(("length", "rate"), [(256, 0.2), (192, 0.0)])
def test_attention_of_packed_rows_and_its_gradients(length, rate):
    """Blocks without a common example are left out; one row has examples across blocks, the other padding behind one."""
    from pretrain.layers.attention_kernel import attention
    from pretrain.layers.dropout import row_factors

    heads, width = 2, 16
    place = np.arange(length)
    ids = jnp.asarray(
        np.stack([np.where(place < length - 26, 1 + (place >= 60) + (place >= 130), 0), place < 5]), jnp.int32
    )
    arrays = [normal(seed, 2, length, heads, width) for seed in range(3)]
    weight, key = normal(3, 2, length, heads, width), jnp.array([1, 2], jnp.uint32)
    rows = jnp.arange(2 * heads * length, dtype=jnp.uint32)[:, None]
    kept = row_factors(rows, jnp.arange(length, dtype=jnp.uint32), key, rate).reshape(2, heads, length, length)

    def plain(query, keys, value):
        scores = (
            jnp.einsum("blhw,bmhw->bhlm", query, keys) / 4
            + jnp.where(ids[:, :, None] == ids[:, None], 0, -1e4)[:, None]
        )
        return jnp.einsum("bhlm,bmhw->blhw", jax.nn.softmax(scores) * kept, value)

    def of(function):
        return jax.jit(jax.value_and_grad(lambda a: jnp.sum(function(*a) * weight)))(arrays)

    expected, found = of(plain), of(lambda *a: attention(*a, ids, key, rate, True))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), expected, found)


def test_masks_of_real_tokens_first():
    assert _is_prefix(np.array([[1, 1, 0], [1, 1, 1], [0, 0, 0]]))
    assert not _is_prefix(np.array([[1, 1, 0], [1, 0, 1]]))
