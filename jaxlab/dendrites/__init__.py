"""Neurons with dendrites: simulated, and trained, as pure functions.

A morphology (`read_swc`, `from_cylinders`) is divided into compartments
(`discretize`), gets channels (`cell`), joins others (`network`) and runs
(`simulate`); gradients of whatever comes out are `jax.grad`'s business.
"""

from jaxlab.dendrites.cell import Cell, cell
from jaxlab.dendrites.compartments import CompartmentTree, forest
from jaxlab.dendrites.connections import (
  Connections,
  Gap,
  connect,
  gap_junctions,
  synapse,
)
from jaxlab.dendrites.discretize import discretize
from jaxlab.dendrites.loop import Recording
from jaxlab.dendrites.memory import MemoryPlan, memory_plan
from jaxlab.dendrites.morphology import (
  Morphology,
  MorphologyError,
  Section,
  from_cylinders,
)
from jaxlab.dendrites.network import Network, network
from jaxlab.dendrites.neuroml import read_neuroml
from jaxlab.dendrites.simulate import Probe, Stimulus, simulate, step
from jaxlab.dendrites.state import Params, State, init_params, init_state
from jaxlab.dendrites.step import Inputs, Options
from jaxlab.dendrites.stimuli import (
  CurrentClamp,
  Events,
  Injection,
  arrivals,
  current_clamp,
  poisson_arrivals,
)
from jaxlab.dendrites.swc import parse_swc, read_swc
from jaxlab.dendrites.synapses import (
  AMPA_NMDA,
  GABA_A,
  Exp2Syn,
  ExpSyn,
  GradedInhibition,
  GradedLag,
  GradedSyn,
  SynapseType,
)
from jaxlab.dendrites.trainable import Rule, make_trainable
