"""The 13 three-node motifs: names, layers, roles and numberings.

An edge i -> j is `A[i, j] = 1`. The state of a dyad (x, y) is
`A[x, y] + 2 A[y, x]`: 0 null, 1 forward, 2 backward, 3 mutual. The code of an
ordered triple (x, y, z) is `s(x, y) + 4 s(x, z) + 16 s(y, z)`, in 0..63.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from jaxlab.errors import UserError
from jaxlab.motifs.types import Motif

MOTIFS: tuple[Motif, ...] = (
  Motif('021D', ((1, 0), (1, 2))),
  Motif('021U', ((0, 1), (2, 1))),
  Motif('021C', ((0, 1), (1, 2))),
  Motif('111D', ((0, 1), (1, 0), (2, 1))),
  Motif('111U', ((0, 1), (1, 0), (1, 2))),
  Motif('030T', ((0, 1), (1, 2), (0, 2))),
  Motif('030C', ((0, 1), (1, 2), (2, 0))),
  Motif('201', ((0, 1), (1, 0), (1, 2), (2, 1))),
  Motif('120D', ((1, 0), (1, 2), (0, 2), (2, 0))),
  Motif('120U', ((0, 1), (2, 1), (0, 2), (2, 0))),
  Motif('120C', ((0, 1), (1, 2), (0, 2), (2, 0))),
  Motif('210', ((0, 1), (1, 2), (2, 1), (0, 2), (2, 0))),
  Motif('300', ((0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0))),
)
NAMES: tuple[str, ...] = tuple(motif.name for motif in MOTIFS)
TRIADS: tuple[str, ...] = ('003', '012', '102', *NAMES)
NUM_EDGES = np.array([len(motif.edges) for motif in MOTIFS], np.int32)

# 1: acyclic, 2: cycles of length two only, 3: a directed cycle of three nodes.
LAYER_OF = np.array([1, 1, 1, 2, 2, 1, 3, 2, 2, 2, 3, 3, 3], np.int8)
# The same by the size of the largest strongly connected part.
SCC_LAYER_OF = np.array([1, 1, 1, 2, 2, 1, 3, 3, 2, 2, 3, 3, 3], np.int8)

# Identifiers of the motifs in other software, in the order of MOTIFS:
# - index: the place in MOTIFS;
# - sporns: 1..13 of Milo et al. (2002) and Sporns & Kötter (2004), as in the
#   Brain Connectivity Toolbox;
# - igraph: isomorphism class of a directed graph of size 3;
# - mfinder: the smallest adjacency matrix read as a binary number.
_IDS = {
  'index': tuple(range(13)),
  'name': NAMES,
  'sporns': (3, 1, 2, 4, 6, 5, 7, 9, 8, 11, 10, 12, 13),
  'igraph': (6, 2, 4, 5, 9, 7, 11, 10, 8, 13, 12, 14, 15),
  'mfinder': (6, 36, 12, 74, 14, 38, 98, 78, 108, 46, 102, 110, 238),
}


def motif_index(name: str) -> int:
  """Returns the place of a motif in `MOTIFS`.

  Raises:
    UserError: if there is no such motif.
  """
  if name not in NAMES:
    raise UserError(
      f'unknown motif {name!r}; it must be one of {", ".join(NAMES)}'
    )
  return NAMES.index(name)


def adjacency(motif: str | int) -> np.ndarray:
  """Returns the `[3, 3]` int32 adjacency of a motif, by name or index."""
  index = motif_index(motif) if isinstance(motif, str) else motif
  matrix = np.zeros((3, 3), np.int32)
  matrix[tuple(zip(*MOTIFS[index].edges, strict=True))] = 1
  return matrix


def layer_of(name: str, by: str = 'cycles') -> int:
  """Returns the layer, 1 to 3, of a motif.

  Args:
    name: the motif.
    by: 'cycles' (acyclic, cycles of two, a cycle of three) or 'scc' (size of
      the largest strongly connected part).

  Raises:
    UserError: if the motif or the rule is unknown.
  """
  return int(layers(by)[motif_index(name)])


def layers(by: str = 'cycles') -> np.ndarray:
  """Returns the `[13]` int8 layers of the motifs by a rule of `layer_of`."""
  tables = {'cycles': LAYER_OF, 'scc': SCC_LAYER_OF}
  if by not in tables:
    raise UserError(f"by={by!r} is no rule; use 'cycles' or 'scc'")
  return tables[by]


def layer_shares(shares: Sequence[float], by: str = 'cycles') -> np.ndarray:
  """Returns `[13]` motif shares: each layer's share, even over its motifs.

  Args:
    shares: `[3]` non-negative shares of the layers.
    by: the rule of `layer_of`.
  """
  layer = layers(by)
  sizes = np.bincount(layer, minlength=4)[1:]
  return (np.asarray(shares, np.float64) / sizes)[layer - 1]


def convert_ids(
  ids: Sequence[int | str] | np.ndarray, src: str, dst: str
) -> np.ndarray:
  """Translates motif identifiers.

  Args:
    ids: identifiers of the numbering `src`.
    src: 'index', 'name', 'sporns' (alias 'milo'), 'igraph' or 'mfinder'.
    dst: another of them.

  Returns:
    The identifiers in the numbering `dst`, int32 (text for 'name').

  Raises:
    UserError: if a numbering or an identifier is unknown.
  """
  source, target = _numbering(src), _numbering(dst)
  unknown = [each for each in np.ravel(ids).tolist() if each not in source]
  if unknown:
    raise UserError(
      f'{unknown[0]!r} is no {src} identifier; known: '
      f'{", ".join(map(str, source))}'
    )
  place = [source.index(each) for each in np.ravel(ids).tolist()]
  dtype = None if dst == 'name' else np.int32
  return np.array(target, dtype)[place].reshape(np.shape(ids))


def _numbering(name: str) -> tuple:
  key = 'sporns' if name == 'milo' else name
  if key not in _IDS:
    raise UserError(
      f'unknown numbering {name!r}; it must be one of {", ".join(_IDS)} or milo'
    )
  return _IDS[key]


def _triple_code(matrix: np.ndarray, order: Sequence[int]) -> int:
  """Code of the nodes of a `[3, 3]` adjacency taken in an order."""
  x, y, z = order
  states = (
    matrix[a, b] + 2 * matrix[b, a] for a, b in ((x, y), (x, z), (y, z))
  )
  return int(sum(state << 2 * place for place, state in enumerate(states)))


def _orbits(matrix: np.ndarray) -> list[int]:
  """For each position the smallest one that an automorphism maps it to."""
  code = _triple_code(matrix, (0, 1, 2))
  symmetries = [
    order
    for order in itertools.permutations(range(3))
    if _triple_code(matrix, order) == code
  ]
  return [min(order[p] for order in symmetries) for p in range(3)]


def _wedges_held() -> np.ndarray:
  """How often each open motif is left when one dyad of another is emptied."""
  held = np.zeros((13, 13), np.int32)
  for index in CLOSED:
    code = _triple_code(adjacency(int(index)), (0, 1, 2))
    for place in range(3):
      held[index, CLASS_OF_CODE[code & ~(3 << 2 * place)]] += 1
  return held


def _tables():
  """Motif and role of every code, and the roles themselves."""
  class_of = np.full(64, -1, np.int8)
  role_of = np.full((64, 3), -1, np.int8)
  roles: list[tuple[int, int, int]] = []
  for index in range(13):
    matrix = adjacency(index)
    orbit = _orbits(matrix)
    first = {p: len(roles) + n for n, p in enumerate(sorted(set(orbit)))}
    roles += [(index, p, orbit.count(p)) for p in sorted(set(orbit))]
    for order in itertools.permutations(range(3)):
      code = _triple_code(matrix, order)
      class_of[code] = index
      role_of[code] = [first[orbit[p]] for p in order]
  return class_of, role_of, np.array(roles, np.int32)


# Index of the motif of each triple code, -1 for a disconnected triple; and the
# role of each of the triple's three nodes. A role is an orbit of nodes of a
# motif; ROLES has rows (motif, a position of its adjacency, number of nodes).
CLASS_OF_CODE, ROLE_OF_CODE, ROLES = _tables()
NUM_ROLES = len(ROLES)
# `[30]` degrees of a role within its motif.
ROLE_IN = np.array([adjacency(m)[:, p].sum() for m, p, _ in ROLES], np.int32)
ROLE_OUT = np.array([adjacency(m)[p].sum() for m, p, _ in ROLES], np.int32)
# `[30, 13]` 1 where the role belongs to the motif.
ROLE_TO_MOTIF = (ROLES[:, :1] == np.arange(13)).astype(np.int32)
# The motifs without a null dyad, and `[13, 13]` how many wedges of each open
# motif (column) a closed one (row) holds.
CLOSED = np.array([5, 6, 8, 9, 10, 11, 12])
WEDGES_HELD = _wedges_held()
