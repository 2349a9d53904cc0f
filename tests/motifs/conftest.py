"""Fixtures and oracles of the family's tests."""

import itertools

import jax
import numpy as np
import pytest

from jaxlab.motifs import CLASS_OF_CODE, ROLE_OF_CODE


@pytest.fixture
def x64():
  """Float64 by default, as the exact comparisons need."""
  with jax.enable_x64(True):
    yield


@pytest.fixture
def random_graph():
  """A function (seed, N, density) to an `[N, N]` bool graph without loops."""

  def draw(seed, num_nodes, density):
    rng = np.random.default_rng(seed)
    A = rng.random((num_nodes, num_nodes)) < density
    np.fill_diagonal(A, False)
    return A

  return draw


@pytest.fixture
def instances():
  """A function of a graph: its connected triples, motifs and roles."""

  def enumerate_(A):
    state = A.astype(int) + 2 * A.T
    found = []
    for x, y, z in itertools.combinations(range(len(A)), 3):
      code = state[x, y] + 4 * state[x, z] + 16 * state[y, z]
      if CLASS_OF_CODE[code] >= 0:
        roles = dict(zip((x, y, z), ROLE_OF_CODE[code].tolist(), strict=True))
        found.append(((x, y, z), int(CLASS_OF_CODE[code]), roles))
    return found

  return enumerate_
