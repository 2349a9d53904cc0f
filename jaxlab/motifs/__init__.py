"""Network motifs: counts, null models, and graphs with given motifs.

    from jaxlab.motifs import MOTIFS, census, null_census, tile, weights

    counts = census(A)                          # exact, [13]
    result = null_census(key, A, replicas=200)  # z-scores and p-values
    A, placements = tile(key, '030C', num_nodes=60, copies=40)
    W = weights(key, A, 'loop_sign', placements=placements, s3=-1)

An edge i -> j is `A[i, j] = 1`; a weight that acts from i to j is `W[j, i]`.
See `dynamics` for what a motif does, `rnn` for recurrent networks of motifs,
`tasks` for what they learn, `scores` for how robust and flexible they are.
"""

from jaxlab.motifs.catalog import (
  CLASS_OF_CODE,
  LAYER_OF,
  MOTIFS,
  NAMES,
  ROLE_OF_CODE,
  ROLES,
  TRIADS,
  adjacency,
  convert_ids,
  layer_of,
  layer_shares,
  layers,
  motif_index,
)
from jaxlab.motifs.census import (
  census,
  census_limbs,
  expected_census,
  join_limbs,
  node_census,
  role_census,
  triad_census,
)
from jaxlab.motifs.connectomes import from_params, threshold
from jaxlab.motifs.dyads import CheckedAdjacency, check_adjacency
from jaxlab.motifs.generate import (
  Annealed,
  SoftFit,
  anneal,
  block_graph,
  blocks,
  check_target,
  control,
  rescale,
  soft,
  tile,
  weights,
)
from jaxlab.motifs.meta import (
  MotifGraph,
  meta_connectivity,
  motif_graph,
  null_motif_graph,
)
from jaxlab.motifs.nulls import (
  compare,
  count_graphs,
  null_census,
  null_statistic,
)
from jaxlab.motifs.rewiring import KINDS, Rewired, rewire, rewire_chain
from jaxlab.motifs.sampled import estimate_census
from jaxlab.motifs.sparse import check_edges, sparse_census
from jaxlab.motifs.types import (
  Estimate,
  InfeasibleTarget,
  Motif,
  NullResult,
  Placements,
)
from jaxlab.motifs.weighted import (
  Intensity,
  SignedCensus,
  intensity,
  signed_census,
)

__all__ = [
  'CLASS_OF_CODE',
  'KINDS',
  'LAYER_OF',
  'MOTIFS',
  'NAMES',
  'ROLES',
  'ROLE_OF_CODE',
  'TRIADS',
  'Annealed',
  'CheckedAdjacency',
  'Estimate',
  'InfeasibleTarget',
  'Intensity',
  'Motif',
  'MotifGraph',
  'NullResult',
  'Placements',
  'Rewired',
  'SignedCensus',
  'SoftFit',
  'adjacency',
  'anneal',
  'block_graph',
  'blocks',
  'census',
  'census_limbs',
  'check_adjacency',
  'check_edges',
  'check_target',
  'compare',
  'control',
  'convert_ids',
  'count_graphs',
  'estimate_census',
  'expected_census',
  'from_params',
  'intensity',
  'join_limbs',
  'layer_of',
  'layer_shares',
  'layers',
  'meta_connectivity',
  'motif_graph',
  'motif_index',
  'node_census',
  'null_census',
  'null_motif_graph',
  'null_statistic',
  'rescale',
  'rewire',
  'rewire_chain',
  'role_census',
  'signed_census',
  'soft',
  'sparse_census',
  'threshold',
  'tile',
  'triad_census',
  'weights',
]
