"""Calibration against published tables: sections 6 and 7 of the LSAT."""

import numpy as np

from jaxlab import data
from jaxlab.adaptive_testing import calibrate, estimate, plots
from jaxlab.harness.claims import Claim
from jaxlab.harness.settings import check_names

_SLOPE = 0.755
_DIFFICULTIES = (-3.615, -1.322, -0.318, -1.730, -2.780)
_LOGLIK = {
  ('lsat6', '1PL'): -2466.938,
  ('lsat6', '2PL'): -2466.653,
  ('lsat7', '2PL'): -2658.805,
}
# Slopes and difficulties of the 2PL model. Those of section 7 were printed as
# slopes and intercepts d = -a b.
_TWO_PARAMETERS = {
  'lsat6': (
    (0.8254, 0.7229, 0.8905, 0.6886, 0.6575),
    (-3.3597, -1.3696, -0.2799, -1.8659, -3.1236),
  ),
  'lsat7': (
    (0.988, 1.081, 1.706, 0.765, 0.736),
    (
      -1.856 / 0.988,
      -0.808 / 1.081,
      -1.804 / 1.706,
      -0.486 / 0.765,
      -1.855 / 0.736,
    ),
  ),
}
_SOURCES = {
  ('lsat6', '1PL'): 'Bock & Lieberman 1970; Thissen 1982, section 6',
  ('lsat6', '2PL'): 'Rizopoulos, Journal of Statistical Software 17(5), 2006',
  ('lsat7', '2PL'): 'Chalmers, Journal of Statistical Software 48(6), 2012',
}
_TOLERANCE = 0.02


def run(config, workdir) -> None:
  """Fits the models and compares the items."""
  check_names(config, 'sections', ('lsat6', 'lsat7'))
  check_names(config, 'models', calibrate.MODELS)
  items, fits = [], []
  for section in config.sections:
    responses = data.load(section).responses
    for model in config.models:
      bank, info = calibrate.fit_mml(responses, model=model)
      scores = estimate.estimate_ability(bank, responses, method='eap')
      fits.append(
        {
          'section': section,
          'model': model,
          'log-likelihood': float(info.loglik),
          'published': _LOGLIK.get((section, model), float('nan')),
          'EM steps': int(info.n_iter),
          'converged': bool(info.converged),
          'EAP standard error': float(np.mean(scores.se)),
        }
      )
      published = _published(section, model)
      for j in range(bank.num_items):
        row = {
          'section': section,
          'model': model,
          'item': j + 1,
          'a': float(bank.a[j]),
          'a se': float(info.se.a[j]),
          'b': float(bank.b[j]),
          'b se': float(info.se.b[j]),
          'c': float(bank.c[j]),
        }
        if published is not None:
          row |= {
            'a published': published[0][j],
            'b published': published[1][j],
          }
        items.append(row)
  workdir.save_table(
    'items', items, 'Items with standard errors beside published values.'
  )
  workdir.save_table('fits', fits, 'Marginal log-likelihoods.')
  _save_figures(workdir, items)
  for fit in fits:
    workdir.headline(
      f'log-likelihood, {fit["section"]}, {fit["model"]}',
      fit['log-likelihood'],
    )
  for claim in _claims(items, fits):
    workdir.add_claim(claim)


def _published(section: str, model: str):
  """Slopes and difficulties, or None."""
  if (section, model) == ('lsat6', '1PL'):
    return (_SLOPE,) * 5, _DIFFICULTIES
  if model == '2PL':
    return _TWO_PARAMETERS[section]
  return None


def _save_figures(workdir, items) -> None:
  pairs = sorted(
    {(x['section'], x['model']) for x in items if 'b published' in x}
  )
  for section, model in pairs:
    rows = [x for x in items if (x['section'], x['model']) == (section, model)]
    workdir.save_figure(
      f'{section}_{model}',
      plots.items_against_published(
        [f'item {x["item"]}' for x in rows],
        *([x[n] for x in rows] for n in ('b published', 'b', 'b se')),
        title=f'{section}, {model}',
      ),
      'Difficulties with standard errors beside published ones.',
    )


def _claims(items, fits):
  """Both sides of a comparison are one data set: there is no interval."""
  for fit in fits:
    if not np.isnan(fit['published']):
      gap = abs(fit['log-likelihood'] - fit['published'])
      yield Claim(
        f'{fit["section"]}, {fit["model"]}: log-likelihood as published',
        _SOURCES[fit['section'], fit['model']],
        *(gap, gap, gap, 0.02, '<'),
        unit='nats',
        note='a fit to the published table: no sampling error',
      )
  for section, model in sorted({(x['section'], x['model']) for x in items}):
    rows = [
      x
      for x in items
      if (x['section'], x['model']) == (section, model) and 'b published' in x
    ]
    if rows:
      gap = max(abs(x[n] - x[f'{n} published']) for x in rows for n in 'ab')
      yield Claim(
        f'{section}, {model}: slopes and difficulties as published',
        _SOURCES[section, model],
        *(gap, gap, gap, _TOLERANCE, '<'),
        unit='logit',
        note='largest difference of an item; no sampling error',
      )
