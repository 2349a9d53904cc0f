"""Every experiment of the family in its test mode, as a user runs it."""

import math
import shutil

import numpy as np
import pytest

from jaxlab import data, errors, main
from jaxlab.bandits import (
  experiment_ablation,
  experiment_anytime,
  experiment_error,
  experiment_scaling,
  schedule,
)
from jaxlab.harness import startup
from tests.runs import holds, once, run, table

# Config -> tables and figures (or the beginnings of their names), claims.
_EXPERIMENTS = {
  'b3_ablation': (['regret'], ['t0_high', 'growth_high', 'rules_high'], 3),
  'b3_anytime': (['regret', 'steps'], ['anytime'], 3),
  'b3_caption_contest': (['regret', 'ranks', 'error'], ['regret_'], 1),
  'b3_scaling': (['arms', 'replications'], ['seconds', 'memory'], 2),
  'b3_vs_sh_error': (['error', 'decay'], ['error_alpha_', 'split_alpha_'], 2),
  'model_selection': (['regret'], ['regret'], 4),
}


@pytest.fixture(autouse=True)
def _devices_stay(monkeypatch):
  monkeypatch.setattr(startup, 'start_jax', lambda device, **_: None)


def _run(config: str, folder, *flags: str) -> dict:
  return run(f'bandits/{config}', folder, *flags)


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
  """Runs each experiment once: config -> (folder, summary)."""
  return once(tmp_path_factory, _run)


_LONG = ('b3_ablation', 'b3_anytime', 'b3_caption_contest', 'b3_scaling')


@pytest.mark.parametrize(
  'config',
  [
    pytest.param(name, marks=[pytest.mark.slow] * (name in _LONG))
    for name in _EXPERIMENTS
  ],
)
def test_leaves_what_it_states(runs, config):
  if config == 'b3_caption_contest':
    try:
      data.load('caption_contest', '559')
    except errors.MissingDataError as missing:
      pytest.skip(str(missing))
  folder, summary = runs(config)
  tables, figures, num_claims = _EXPERIMENTS[config]
  assert (folder / 'DONE').exists()
  assert len(summary['claims']) >= num_claims
  for claim in summary['claims']:
    assert claim['holds'] == holds(claim), claim['text']
    assert claim['paper']
  assert summary['headline']
  for name in tables:
    rows = table(folder, name)
    assert rows, name
  found = [path.stem for path in (folder / 'figures').glob('*.png')]
  for name in figures:
    assert any(each.startswith(name) for each in found), (name, found)
  for path in (folder / 'figures').glob('*.png'):
    assert path.read_bytes().startswith(b'\x89PNG')
  listed = {each['name'] for each in summary['tables']}
  assert listed == {path.stem for path in (folder / 'tables').glob('*.csv')}


def test_error_table_splits_the_errors(runs):
  folder, _ = runs('b3_vs_sh_error')
  for row in table(folder, 'error'):
    num, eps, entered = int(row['N']), float(row['eps']), int(row['c0 of B3'])
    # Gaps are i/N: the eps-best arms are i = 0 .. eps N (rounding aside).
    exact = [
      math.comb(num - good, entered) / math.comb(num, entered)
      for good in (round(eps * num), round(eps * num) + 1)
    ]
    assert any(
      math.isclose(float(row['not entered exact']), e, rel_tol=1e-9)
      for e in exact
    )
    total = float(row['not entered']) + float(row['lost inside'])
    assert math.isclose(total, float(row['B3']), abs_tol=1e-12)
    assert float(row['lost inside']) >= 0
    if row['duel'] == 'same c0':
      assert row['c0 of B3'] == row['c0 of SH']
    else:
      assert int(row['c0 of SH']) * math.ceil(
        math.log2(int(row['c0 of SH']))
      ) <= int(row['T'])


def test_unfinished_run_resumes_to_the_same_numbers(runs, tmp_path):
  folder, summary = runs('b3_vs_sh_error')
  again = tmp_path / 'again'
  shutil.copytree(folder, again)
  for name in ('DONE', 'summary.json'):
    (again / name).unlink()
  shutil.rmtree(again / 'tables')
  resumed = _run('b3_vs_sh_error', again)
  assert resumed['claims'] == summary['claims']
  assert resumed['headline'] == summary['headline']
  for name in ('error', 'decay'):
    assert table(again, name) == table(folder, name)


def test_pool_that_runs_empty_is_refused(tmp_path, capsys):
  code = main.main(
    [
      'run',
      'bandits/b3_vs_sh_error:test',
      f'--workdir={tmp_path / "run"}',
      '--config.num_arms=(20,)',
    ]
  )
  assert code == 2
  assert 'config.budgets has 200' in capsys.readouterr().err


def test_decay_rate_of_exact_exponentials():
  trials, x = 2**12, np.array([0.0, 1.0, 2.0, 3.0])
  counts = trials // 2 ** np.array([1, 3, 5, 7])
  wrong = (np.arange(trials)[:, None] < counts).astype(float)
  slope, low, high = experiment_error.decay_rate(wrong, x)
  assert math.isclose(slope, -2 * math.log(2), rel_tol=1e-6)
  # Delta method by hand: Cov(p_j, p_k) = (p_max(j,k) - p_j p_k) / R.
  p = counts / trials
  w = (x - 1.5) / 5
  cov = np.minimum.outer(p, p) - np.outer(p, p)
  variance = (w / p) @ cov @ (w / p) / trials
  assert math.isclose((high - low) / 2, 1.96 * variance**0.5, rel_tol=2e-3)


def test_regret_area_is_the_mean_over_log_time():
  points = np.array([1, 10, 1000])
  constant = np.full((2, 3), 0.3)
  np.testing.assert_allclose(
    experiment_anytime.regret_area(constant, points), 0.3
  )
  falling = np.log(points)[None]  # linear in log T: its mean is the midpoint
  np.testing.assert_allclose(
    experiment_anytime.regret_area(falling, points), math.log(1000) / 2
  )


def test_checkpoints_are_distinct_and_end_at_the_budget():
  points = experiment_anytime.checkpoints(1, 16, 5)
  assert points == [1, 2, 4, 8, 16]
  assert experiment_anytime.checkpoints(1, 4, 64) == [1, 2, 3, 4]


def test_log_slope_of_powers():
  x = np.array([1.0, 7.0, 50.0])
  slopes = experiment_scaling.log_slope(x, np.stack([x, 3 * x**0.5]))
  np.testing.assert_allclose(slopes, [1.0, 0.5])


def test_peak_growth_sees_an_array():
  size = 2**26
  found = experiment_scaling.peak_growth(lambda: np.ones(size, np.uint8).sum())
  if math.isnan(found):
    pytest.skip('this system does not tell the peak of resident memory')
  assert 0.9 * size <= found < 1.5 * size


def test_synthetic_pool_has_the_moments_of_the_contest():
  pool = experiment_ablation.load_pool('synthetic', 0)
  assert pool.probs.shape == (9250, 3)
  np.testing.assert_allclose(pool.probs.sum(1), 1, atol=1e-6)
  means = pool.probs @ np.array([0, 0.5, 1])
  np.testing.assert_allclose(means, pool.mu, atol=1e-6)
  # Beta(a, b) has mean a / (a + b), variance m (1 - m) / (a + b + 1).
  mean = 7.92 / 55.55
  assert math.isclose(pool.mu.mean(), mean, rel_tol=1e-4)
  assert math.isclose(pool.mu.var(), mean * (1 - mean) / 56.55, rel_tol=2e-3)


def test_ablation_changes_one_thing_at_a_time():
  class Config:
    base_pulls, growths, full_grid = (1, 2), (1.4, 1.728), False

  chosen = experiment_ablation.variants(Config)
  assert len(chosen) == len(set(chosen)) == 8
  default = experiment_ablation.Variant()
  assert chosen[0] == default
  assert default.growth == schedule.R_STAR
  changes = [
    sum(a != b for a, b in zip(variant, default, strict=True))
    for variant in chosen
  ]
  # Only t0 and reuse are crossed.
  assert sorted(changes) == [0, 1, 1, 1, 1, 1, 1, 2]
  Config.full_grid = True
  assert len(experiment_ablation.variants(Config)) == 2 * 2 * 2 * 2 * 3
