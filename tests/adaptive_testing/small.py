"""A small bank, examinees, and tests of all of them."""

import jax
import numpy as np

from jaxlab.adaptive_testing import simulate
from jaxlab.adaptive_testing.selectors import mfi
from tests.adaptive_testing import reference

E, N, T = 24, 14, 6
KEY = jax.random.key(7)
RNG = np.random.default_rng(3)
A = RNG.lognormal(0, 0.4, N)
B = RNG.normal(size=N)
C = np.where(np.arange(N) % 2, RNG.beta(5, 17, N), 0)
THETA = RNG.normal(size=E)
Y = (RNG.random((E, N)) < reference.prob(A, B, C, THETA[:, None])).astype(float)
OPEN = RNG.random((E, N)) < 0.8
SLOPES = RNG.lognormal(0, 0.5, (10, 2))  # of a bank of two dimensions
RECORDED = np.where(OPEN, Y, np.nan)

ask = jax.jit(simulate.choose_items, static_argnums=0)
answer = jax.jit(simulate.update, static_argnums=4)


def play(bank, rule=None, responses=RECORDED, available=OPEN, **options):
  options = {'test_length': T, 'key': KEY} | options
  return simulate.run_cat(
    rule or mfi(), None, bank, responses, available=available, **options
  )


def posterior_by_hand(items, grid=reference.GRID):
  return np.array(
    [
      reference.log_posterior(A[i], B[i], C[i], Y[e, i], grid)
      for e, i in enumerate(np.asarray(items).T)
    ]
  )
