"""Bandit packages at work: run by the interpreter of the peers' environment.

Reads jobs as JSON lines `{seed, mu, budget, replications, ..}` with Bernoulli
means `mu`, answers with the list of recommended arms.
"""

import functools
import importlib.metadata
import json
import math
import random
import sys

import numpy as np


def smpybandits_ucb_e(job):
  """UCB-E as SMPyBandits' UCB-H, whose index is mean + sqrt(a / pulls)."""
  from SMPyBandits.Arms import Bernoulli
  from SMPyBandits.Policies import UCBH

  arms = [Bernoulli(p) for p in job['mu']]
  alpha = 2 * job['a'] / math.log(job['budget'])
  for _ in range(job['replications']):
    policy = UCBH(len(arms), horizon=job['budget'], alpha=alpha)
    policy.startGame()
    for _ in range(job['budget']):
      arm = policy.choice()
      policy.getReward(arm, arms[arm].draw())
    yield int(np.argmax(policy.rewards / policy.pulls))


def rlberry_ucb_e(job):
  """UCB-E as rlberry's IndexAgent."""
  from rlberry.agents.bandits import IndexAgent
  from rlberry.envs.bandits import BernoulliBandit

  def index(tracker):
    return [
      tracker.mu_hat(arm) + math.sqrt(job['a'] / tracker.n_pulls(arm))
      for arm in tracker.arms
    ]

  for replication in range(job['replications']):
    seed = job['seed'] * 100_000 + replication
    env = BernoulliBandit(np.asarray(job['mu']))
    agent = IndexAgent(env, index, seeder=seed)
    agent.fit(job['budget'])
    yield int(np.argmax([agent.tracker.mu_hat(arm) for arm in agent.arms]))


def best_arm_lucb(job):
  """best-arm's LUCB1, stopped by the budget."""
  from best_arm.algorithms.lucb1 import LUCB1
  from best_arm.environment import BernoulliEnvironment
  from best_arm.stopping_conditions import BaseStoppingCondition

  class BudgetSpent(BaseStoppingCondition):
    def should_stop(self, counts, *_):
      return counts.sum() >= job['budget']

  env = BernoulliEnvironment(len(job['mu']), 'linear')
  env.probs = job['mu']
  for _ in range(job['replications']):
    arm, *_ = LUCB1(env, job['delta'], BudgetSpent()).run()
    yield int(arm)


_JOBS = {
  'SMPyBandits': smpybandits_ucb_e,
  'rlberry': rlberry_ucb_e,
  'best-arm': best_arm_lucb,
}


def main() -> None:
  """Answers jobs until standard input ends."""
  package = sys.argv[1]
  answers, sys.stdout = sys.stdout, sys.stderr
  say = functools.partial(print, file=answers, flush=True)
  version = importlib.metadata.version(package)
  say(json.dumps({'version': f'{package} {version}'}))
  for line in sys.stdin:
    job = json.loads(line)
    random.seed(job['seed'])
    # What the packages draw from.
    np.random.seed(job['seed'])  # noqa: NPY002
    say(json.dumps(list(_JOBS[package](job))))


if __name__ == '__main__':
  main()
