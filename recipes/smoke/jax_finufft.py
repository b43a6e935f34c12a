"""jax-finufft on the CPU: of points at the origin, every mode is the sum of the strengths."""

import jax.numpy as jnp
from jax_finufft import nufft1, nufft2

strengths, origin = jnp.ones(3, "complex64"), jnp.zeros(3, "float32")

modes = nufft1(4, strengths, origin)
assert jnp.allclose(modes, 3, atol=1e-4), modes

back = nufft2(modes, origin)
assert jnp.allclose(back, 12, atol=1e-4), back
