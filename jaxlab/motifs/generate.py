"""Graphs and weights with given motifs, in one place.

`targets` checks what is asked for, `tile` and `blocks` place copies, `anneal`
and `soft` search for counts, `weights` makes a network of a graph.
"""

from jaxlab.motifs.anneal import Annealed, anneal
from jaxlab.motifs.blocks import block_graph, blocks
from jaxlab.motifs.soft import SoftFit, draw_edges, soft
from jaxlab.motifs.targets import apportion, check_target, copies_with_edges
from jaxlab.motifs.tile import placed_graph, tile
from jaxlab.motifs.types import InfeasibleTarget, Placements
from jaxlab.motifs.weights import LAWS, control, rescale, weights

__all__ = [
  'LAWS',
  'Annealed',
  'InfeasibleTarget',
  'Placements',
  'SoftFit',
  'anneal',
  'apportion',
  'block_graph',
  'blocks',
  'check_target',
  'control',
  'copies_with_edges',
  'draw_edges',
  'placed_graph',
  'rescale',
  'soft',
  'tile',
  'weights',
]
