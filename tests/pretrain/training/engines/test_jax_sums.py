"""Sums of gradients over replicas: against the library's own sum of float32, on devices of this machine's processor."""

import os
import subprocess

import pytest

from tests import warm_python

pytest.importorskip("jax")

# Prints for each case (replicas, narrow dtype, whether it recomputes activations) the dtypes of the gradients, and whether sums
# and values are on each replica, to the last bit, those of psum and value_and_grad.
COMPARED = """
import jax, jax.numpy as jnp, numpy as np, sys
from jax.sharding import Mesh, PartitionSpec as P
from pretrain.training.engines.jax_devices import AXIS
from pretrain.training.engines.jax_sums import sum_over_replicas, value_and_gradients

generator = np.random.default_rng(3)
shapes = {"bias": 16, "kernel": (16, 16), "scale": 16, "tied": (16, 7), "unused": 3}
weights = {name: generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}

def compare(replicas, narrow, checkpointing):
    def loss(weights, x):
        cast = {name: weight.astype(narrow) for name, weight in weights.items()}
        hidden = jnp.tanh(x.astype(narrow) @ cast["kernel"] + cast["bias"])
        if checkpointing:
            hidden = jax.checkpoint(lambda h: jnp.tanh(h @ cast["kernel"]))(hidden)
        hidden = hidden.astype(jnp.float32) * weights["scale"]
        twice = hidden.astype(narrow) @ cast["tied"] + x.astype(narrow) @ weights["tied"].astype(narrow)
        value = jnp.mean(jnp.square(twice.astype(jnp.float32)))
        return value, (value.astype(narrow), jnp.sum(hidden))

    x = generator.normal(size=(replicas * 8, 16)).astype(np.float32)
    mesh = Mesh(np.array(jax.devices()[:replicas]), (AXIS,))
    dtypes = {}

    def ours(x):
        values, gradients = value_and_gradients(loss)(weights, x)
        dtypes.update({name: str(each.dtype) for name, each in gradients.items()})
        return jax.lax.pmean(values, AXIS), sum_over_replicas(list(gradients.values()))

    def peer(x):
        values, gradients = jax.value_and_grad(loss, has_aux=True)(weights, x)
        return jax.lax.pmean(values, AXIS), [jax.lax.psum(each, AXIS) for each in gradients.values()]

    def on_replicas(function):
        stacked = lambda x: jax.tree.map(lambda value: value[None], function(x))
        mapped = jax.shard_map(stacked, mesh=mesh, in_specs=P(AXIS), out_specs=P(AXIS), check_vma=False)
        return jax.tree.leaves(jax.jit(mapped)(x))

    pairs = list(zip(on_replicas(ours), on_replicas(peer), strict=True))
    assert any(np.any(np.asarray(value)) for value in pairs[-2])
    print(*dtypes.values(), all(a.dtype == b.dtype and (np.asarray(a) == np.asarray(b)).all() for a, b in pairs))

def users_of_gradients(dtype):
    mesh = Mesh(np.array(jax.devices()[:2]), (AXIS,))
    add = jax.shard_map(sum_over_replicas, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)
    [mapped] = jax.make_jaxpr(add)([jnp.zeros(3, dtype), jnp.zeros((2, 2), dtype)]).eqns
    body = mapped.params["jaxpr"]
    return [equation.primitive.name for equation in body.eqns if {*equation.invars} & {*body.invars}]

for case in sys.argv[1:]:
    replicas, narrow, *checkpointing = case.split(",")
    compare(int(replicas), getattr(jnp, narrow), bool(checkpointing))
print(*users_of_gradients(jnp.bfloat16), *users_of_gradients(jnp.float32))
"""
WIDE = "float32"
CASES = {
    # The bias and the kernel; a weight that is used twice, one that is never cast and one without a gradient stay float32.
    "2,bfloat16": ("bfloat16", "bfloat16", WIDE, WIDE, WIDE),
    "2,float16": ("float16", "float16", WIDE, WIDE, WIDE),
    "2,bfloat16,checkpointing": ("bfloat16", "bfloat16", WIDE, WIDE, WIDE),
    "2,float32": (WIDE,) * 5,
    # Other numbers of replicas sum float32.
    "1,bfloat16": (WIDE,) * 5,
    "3,bfloat16": (WIDE,) * 5,
}


def test_two_replicas_exchange_what_backward_computed_in_16_bits():
    variables = {
        "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1",
        # Without excess precision: XLA may else leave out both of the casts to 16 bits and back. The level halves compile time.
        "XLA_FLAGS": "--xla_force_host_platform_device_count=3 --xla_allow_excess_precision=false "
        "--xla_backend_optimization_level=0",
    }  # fmt: skip
    command = [*warm_python.COMMAND, "-c", COMPARED, *CASES]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *lines, users = done.stdout.splitlines()
    found = dict(zip(CASES, lines, strict=True))
    assert found == {case: f"{' '.join(dtypes)} True" for case, dtypes in CASES.items()}
    # What is sent is what is added: on a GPU, XLA else adds the own gradient as it was before its cast to 16 bits.
    assert {*users.split()} == {"optimization_barrier"}
