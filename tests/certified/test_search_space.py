"""Spaces hold the published settings, and give what training reads."""

import math

import pytest

from jaxlab.certified import lanes, losses, search_space
from jaxlab.certified.search_space import Knob
from jaxlab.errors import UserError

BENCHMARKS = ('mnist_0.1', 'mnist_0.3', 'cifar10_2', 'cifar10_8', 'digits')
KNOWN = [
  (method, benchmark)
  for benchmark in BENCHMARKS
  for method in losses.LOSSES
  if search_space.published(method, benchmark)
]


def test_every_searched_method_has_published_settings_everywhere():
  for method in ('ibp', 'crown_ibp', 'sabr', 'mtl_ibp'):
    for benchmark in BENCHMARKS:
      assert (method, benchmark) in KNOWN


@pytest.mark.parametrize('method', losses.LOSSES)
def test_a_space_gives_all_that_training_reads(method):
  ranges = search_space.space(method)
  search_space.check(ranges, {})
  middle = {
    knob.name: math.sqrt(knob.low * knob.high)
    if knob.log
    else (knob.low + knob.high) / 2
    for knob in ranges
  }
  hyper = search_space.hyper(method, middle, 0.1)
  assert tuple(hyper) == lanes.knobs(method)
  assert hyper['eps_train'] == pytest.approx(0.125)
  assert len(middle) == len(ranges)


@pytest.mark.parametrize(('method', 'benchmark'), KNOWN)
def test_published_settings_lie_in_their_space(method, benchmark):
  ranges = search_space.space(method, benchmark)
  for found in search_space.published(method, benchmark).values():
    assert found.source
    assert set(found.values) == {knob.name for knob in ranges}
    search_space.check(ranges, found.values)
    assert search_space.hyper(method, found.values, 0.1)


def test_figures_of_the_literature():
  def values(method, benchmark):
    return search_space.published(method, benchmark)['published'].values

  sabr = values('sabr', 'mnist_0.1')
  assert sabr['lambda'] == 0.4
  assert sabr['l1'] == 1e-5
  mtl = values('mtl_ibp', 'cifar10_2')
  assert (mtl['alpha'], mtl['attack_scale']) == (4e-3, 2.1)
  ibp = values('ibp', 'mnist_0.1')
  assert ibp['eps_ratio'] == 2
  assert (ibp['kappa_start'], ibp['kappa_end']) == (1, 0.5)
  assert values('ibp', 'digits') == ibp
  # The ranges of the radius are 1 to 1.5 where nobody went further.
  widths = {
    name: next(k for k in search_space.space('ibp', name) if 'eps' in k.name)
    for name in ('mnist_0.1', 'mnist_0.3')
  }
  assert widths['mnist_0.1'] == Knob('eps_ratio', 1.0, 2.0)
  assert widths['mnist_0.3'] == Knob('eps_ratio', 1.0, 1.5)


def test_kappa_never_rises():
  setting = search_space.published('crown_ibp', 'mnist_0.3')['published']
  values = setting.values | {'kappa_start': 0.2, 'kappa_end': 0.9}
  hyper = search_space.hyper('crown_ibp', values, 0.3)
  assert hyper['kappa_end'] == hyper['kappa_start'] == 0.2
  assert (hyper['beta_start'], hyper['beta_end']) == (1, 0)
  assert hyper['eps_train'] == pytest.approx(0.4)


def test_bad_input():
  with pytest.raises(UserError, match='colt'):
    search_space.space('colt')
  with pytest.raises(UserError, match='svhn'):
    search_space.published('ibp', 'svhn')
  values = search_space.published('sabr', 'digits')['published'].values
  with pytest.raises(UserError, match='alpha'):
    search_space.hyper('sabr', values | {'alpha': 0.1}, 0.1)
  with pytest.raises(UserError, match='lambda'):
    search_space.hyper('ibp', values, 0.1)
  ranges = search_space.space('sabr')
  with pytest.raises(UserError, match=r'lambda is 1\.5'):
    search_space.check(ranges, values | {'lambda': 1.5})
  with pytest.raises(UserError, match='l1'):
    search_space.check([Knob('l1', 0, 1, log=True)], {})
