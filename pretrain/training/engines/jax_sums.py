"""Sums of gradients over the replicas on JAX, in the bytes that the gradients have."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps

import jax
import jax.numpy as jnp
from jax.extend import core

from pretrain.training.engines.jax_devices import AXIS


def value_and_gradients(function: Callable) -> Callable:
    """jax.value_and_grad of a function with has_aux, whose gradients are for `sum_over_replicas`.

    A layer that computes in bfloat16 or float16 casts its float32 weight, so its backward pass computes the gradient in 16 bits
    and casts it to float32 at the very end. Where two replicas exchange gradients, that cast is left to the sum.
    """
    differentiate = jax.value_and_grad(function, has_aux=True)
    if not _exchanged():
        return differentiate

    @wraps(differentiate)
    def before_casts(*arguments):
        closed, shapes = jax.make_jaxpr(differentiate, return_shape=True)(*arguments)
        results, values = closed.jaxpr.outvars, len(jax.tree.leaves(shapes[0]))
        made_by = {variable: equation for equation in closed.jaxpr.eqns for variable in equation.outvars}
        gradients = [_before_cast(each, made_by) for each in results[values:]]
        jaxpr = closed.jaxpr.replace(outvars=[*results[:values], *gradients])
        leaves = core.jaxpr_as_fun(closed.replace(jaxpr=jaxpr))(*jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shapes), leaves)

    return before_casts


def sum_over_replicas(gradients: Sequence[jax.Array]) -> list[jax.Array]:
    """float32 sums of the replicas' gradients, the same on every replica.

    Two replicas give each other their gradients and add them in float32. That moves as many bytes as a sum by the library, half as
    many for gradients of 16 bits, needs no copies into and out of the library's buffers, and each gradient may be on its way while
    the next are computed.
    """
    if not _exchanged():
        return jax.lax.psum(gradients, AXIS)
    # A replica adds the very value that it sends. Otherwise XLA for GPUs adds the own gradient as it was before it was rounded to
    # 16 bits, and the weights of the two replicas drift apart.
    sent = [jax.lax.optimization_barrier(each) for each in gradients]
    received = jax.lax.ppermute(sent, AXIS, [(0, 1), (1, 0)])
    pairs = zip(sent, received, strict=True)
    return [own.astype(jnp.float32) + other.astype(jnp.float32) for own, other in pairs]


def _exchanged() -> bool:
    return jax.lax.axis_size(AXIS) == 2


def _before_cast(variable: core.Var, made_by: Mapping[core.Var, core.JaxprEqn]) -> core.Var:
    """The 16-bit variable that an equation casts to this one; without such an equation, this one."""
    equation = made_by.get(variable) if isinstance(variable, core.Var) else None  # a literal has no equation
    if equation is None or equation.primitive is not jax.lax.convert_element_type_p:
        return variable
    source = equation.invars[0]
    narrow = isinstance(source, core.Var) and source.aval.dtype in (jnp.bfloat16, jnp.float16)
    return source if narrow else variable
