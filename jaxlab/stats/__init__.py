"""Intervals, tests and rank statistics as pure, vmappable JAX functions.

Closed-form functions take any leading axes. Resampling functions take one
sample with observations along axis 0 and an explicit key; `jax.vmap` maps
them over many samples. Work that grows faster than the input is done in
chunks, so that intermediate arrays stay within about `max_bytes` per sample.
"""

from jaxlab.stats.bootstrap import (
  bootstrap_distribution,
  bootstrap_interval,
  paired_bootstrap_interval,
)
from jaxlab.stats.correlation import kendall, pearson, rankdata, spearman
from jaxlab.stats.intervals import (
  Interval,
  difference_interval,
  mean_interval,
  paired_difference_interval,
)
from jaxlab.stats.pareto import hypervolume_2d, pareto_mask
from jaxlab.stats.proportions import (
  clopper_pearson_interval,
  ratio_of_proportions_interval,
  wilson_interval,
)
from jaxlab.stats.quantiles import beta_quantile, student_t_critical_value
from jaxlab.stats.significance import (
  Significance,
  benjamini_hochberg,
  chi_square_uniform,
  holm,
  permutation_test,
)

__all__ = [
  'Interval',
  'Significance',
  'benjamini_hochberg',
  'beta_quantile',
  'bootstrap_distribution',
  'bootstrap_interval',
  'chi_square_uniform',
  'clopper_pearson_interval',
  'difference_interval',
  'holm',
  'hypervolume_2d',
  'kendall',
  'mean_interval',
  'paired_bootstrap_interval',
  'paired_difference_interval',
  'pareto_mask',
  'pearson',
  'permutation_test',
  'rankdata',
  'ratio_of_proportions_interval',
  'spearman',
  'student_t_critical_value',
  'wilson_interval',
]
