"""Best-arm identification with a limited number of noisy evaluations.

    from jaxlab.bandits import box_thirding, gaussian, simple_regret, simulate

    env = gaussian(mu, sigma=0.5)            # mu: the true means of N arms
    result = simulate(
      jax.random.key(0), box_thirding(), env, budget=8_000, replications=300
    )
    regret = simple_regret(result.true_means, result.best_mean)

Every algorithm is an `Algorithm` of pure functions `init`, `ask`, `tell` and
`recommend`; every environment is a pytree with keyed rewards.
"""

from jaxlab.bandits.b3_batched import B3Result, simulate_b3
from jaxlab.bandits.box_thirding import box_thirding
from jaxlab.bandits.brackets import bracketing_sh, bracketing_ucb
from jaxlab.bandits.envs import (
  bernoulli,
  categorical,
  deterministic,
  gaussian,
  infinite,
)
from jaxlab.bandits.halving import (
  doubling_sh,
  sequential_halving,
  sequential_halving_plan,
  sh_subset,
)
from jaxlab.bandits.hyperband import hyperband, hyperband_plan
from jaxlab.bandits.metrics import (
  error_probability,
  noninclusion_probability,
  paired_difference_ci,
  quantiles,
  rank_table,
  simple_regret,
  uniform_deterministic_regret,
)
from jaxlab.bandits.rejects import successive_rejects, successive_rejects_plan
from jaxlab.bandits.replay import level_table, table
from jaxlab.bandits.schedule import (
  R_STAR,
  Schedule,
  b3_schedule,
  growth_constants,
  quotas,
)
from jaxlab.bandits.simulate import SimResult, run, simulate
from jaxlab.bandits.subset import on_subset
from jaxlab.bandits.thompson import top_two_thompson
from jaxlab.bandits.trivial import oracle, random_arm
from jaxlab.bandits.types import Algorithm, Engine, Recommendation, RunResult
from jaxlab.bandits.ucb import at_lucb, lucb, ucb_e
from jaxlab.bandits.uniform import uniform
