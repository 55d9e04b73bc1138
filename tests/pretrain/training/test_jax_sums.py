"""Sums of gradients over replicas: against the library's own sum of float32, on devices of this machine's processor."""

import os
import subprocess

import pytest

from tests import warm_python

pytest.importorskip("jax")

# Prints the dtypes of the gradients, and whether sums and values are to the last bit those of psum and value_and_grad.
COMPARED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
from pretrain.training.jax_devices import AXIS
from pretrain.training.jax_sums import sum_over_replicas, value_and_gradients

narrow = jnp.{narrow}

def loss(weights, x):
    cast = {{name: weight.astype(narrow) for name, weight in weights.items()}}
    hidden = jax.nn.gelu(x.astype(narrow) @ cast["kernel"] + cast["bias"])
    if {checkpointing}:
        hidden = jax.checkpoint(lambda h: jax.nn.gelu(h @ cast["kernel"]))(hidden)
    hidden = hidden.astype(jnp.float32) * weights["scale"]
    twice = hidden.astype(narrow) @ cast["tied"] + x.astype(narrow) @ weights["tied"].astype(narrow)
    value = jnp.mean(jnp.square(twice.astype(jnp.float32)))
    return value, (value.astype(narrow), jnp.sum(hidden))

generator = np.random.default_rng(3)
shapes = {{"bias": 16, "kernel": (16, 16), "scale": 16, "tied": (16, 7), "unused": 3}}
weights = {{name: generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}}
x = generator.normal(size=(jax.device_count() * 8, 16)).astype(np.float32)
mesh = Mesh(np.array(jax.devices()), (AXIS,))
dtypes = {{}}

def ours(x):
    values, gradients = value_and_gradients(loss)(weights, x)
    dtypes.update({{name: str(each.dtype) for name, each in gradients.items()}})
    return jax.lax.pmean(values, AXIS), sum_over_replicas(list(gradients.values()))

def peer(x):
    values, gradients = jax.value_and_grad(loss, has_aux=True)(weights, x)
    return jax.lax.pmean(values, AXIS), [jax.lax.psum(each, AXIS) for each in gradients.values()]

def on_replicas(function):
    mapped = jax.shard_map(function, mesh=mesh, in_specs=P(AXIS), out_specs=P(), check_vma=False)
    return jax.tree.leaves(jax.jit(mapped)(x))

pairs = list(zip(on_replicas(ours), on_replicas(peer), strict=True))
assert any(np.any(np.asarray(value)) for value in pairs[-2])
print(*dtypes.values(), all(a.dtype == b.dtype and (np.asarray(a) == np.asarray(b)).all() for a, b in pairs))
"""


def compare(replicas: int, narrow: str, checkpointing: bool = False) -> str:
    variables = {
        "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1",
        # Without excess precision: XLA may else leave out both of the casts to 16 bits and back.
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={replicas} --xla_allow_excess_precision=false",
    }  # fmt: skip
    code = COMPARED.format(narrow=narrow, checkpointing=checkpointing)
    done = subprocess.run(
        [*warm_python.COMMAND, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("narrow", ["bfloat16", "float16"])
def test_two_replicas_exchange_what_backward_computed_in_16_bits(narrow):
    """The bias and the kernel; a weight that is used twice, one that is never cast and one without a gradient stay float32."""
    assert compare(2, narrow) == f"{narrow} {narrow} float32 float32 float32 True"


def test_float32_is_exchanged_as_it_is():
    assert compare(2, "float32") == "float32 float32 float32 float32 float32 True"


@pytest.mark.parametrize("replicas", [1, 3])
def test_other_numbers_of_replicas_sum_float32(replicas):
    assert compare(replicas, "bfloat16") == "float32 float32 float32 float32 float32 True"


def test_gradient_checkpointing():
    assert compare(2, "bfloat16", checkpointing=True) == "bfloat16 bfloat16 float32 float32 float32 True"
