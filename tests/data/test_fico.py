"""The credit scores against their files, and files with damage."""

import csv

import numpy as np
import pytest

from jaxlab import data, errors
from jaxlab.data import fico
from tests.data import published

CDF, BAD, TOTALS = (
  'fico_transrisk_cdf_by_race_ssa.csv',
  'fico_transrisk_performance_by_race_ssa.csv',
  'fico_totals.csv',
)
FILES = {
  CDF: 'Score,A,B\n0,10,0\n50,9.99,40\n100,100.00,100\n',
  BAD: 'Score,A,B\n0,90,80\n50,50,30\n100,10,1.5\n',
  TOTALS: 'Kind,A,B\nSSA,300,100\n',
}


@pytest.fixture
def raw(raw_root):
  folder = raw_root / 'fico'
  folder.mkdir()
  for name, text in FILES.items():
    (folder / name).write_text(text)
  return folder


def test_values_by_hand(raw):
  found = data.load('fico')
  assert found.names == ['A', 'B']
  # The fall from 10 to 9.99 is rounding: no negative mass.
  right = np.array([[10, 0, 90.01], [0, 40, 60]])
  right /= right.sum(axis=1, keepdims=True)
  np.testing.assert_allclose(found.pmf, right, atol=1e-15)
  np.testing.assert_allclose(
    found.good, [[0.1, 0.5, 0.9], [0.2, 0.7, 0.985]], atol=1e-15
  )
  assert found.levels.tolist() == [0, 50, 100]
  assert found.weight.tolist() == [0.75, 0.25]
  scores, groups, weight = fico.as_rows(found)
  assert groups.tolist() == [0, 0, 0, 1, 1, 1]
  np.testing.assert_allclose(weight[3:], [0, 0.1, 0.15])
  np.testing.assert_allclose(scores[3:], [0.2, 0.7, 0.985])


def test_columns_are_chosen_by_name_and_in_order(raw):
  swapped = fico.load_fico(raw, ['B', 'A'])
  whole = fico.load_fico(raw)
  np.testing.assert_array_equal(swapped.pmf, whole.pmf[::-1])
  np.testing.assert_array_equal(swapped.totals, [100, 300])
  assert fico.load_fico(raw, ['B']).weight.tolist() == [1]
  for columns in (['C'], ['A', 'A'], [], ['Score']):
    with pytest.raises(errors.UserError, match=r'columns=.*A.*B'):
      data.load('fico', columns=columns)


def test_real_files():
  folder = published.folder(CDF, BAD, TOTALS)
  found = fico.load_fico(folder)
  assert found.pmf.shape == found.good.shape == (4, 198)
  np.testing.assert_allclose(found.pmf.sum(axis=1), 1, atol=1e-12)
  assert found.totals.tolist() == [133165, 18274, 14702, 7906]
  with (folder / CDF).open() as stream:
    rows = [[float(x) for x in row] for row in list(csv.reader(stream))[1:]]
  below = 100 * np.cumsum(found.pmf, axis=1).T
  np.testing.assert_allclose(below, np.array(rows)[:, 1:], atol=1e-9)
  # Base rates of the report, to the digits that were published.
  rate = (found.pmf * found.good).sum(axis=1)
  np.testing.assert_allclose(rate[:3], [0.75867, 0.33655, 0.56811], atol=1e-5)


@pytest.mark.parametrize(
  ('name', 'old', 'new', 'named'),
  [
    (CDF, '9.99', '9.5', r"cdf.*line 3, column 'A'.*9\.5.*at or above"),
    (CDF, '100.00', '99.99', r"line 4, column 'A'.*99\.99.*100"),
    (CDF, '40', '140', r"line 3, column 'B'.*140.*0 to 100"),
    (CDF, '40', 'x', r"line 3, column 'B': 'x'"),
    (CDF, '50,9.99,40', '50,9.99', 'line 3: 2 fields, not 3'),
    (BAD, '50,50', '51,50', 'other scores'),
    (BAD, ',B', ',D', "performance.*no column 'B'"),
    (BAD, '1.5', 'nan', r"line 4, column 'B'.*nan"),
    (TOTALS, '300', '-3', "totals.csv, line 2, column 'A'"),
    (TOTALS, 'SSA', 'all', "Kind 'SSA'"),
  ],
)
def test_damage_is_named(raw, name, old, new, named):
  (raw / name).write_text(FILES[name].replace(old, new, 1))
  with pytest.raises(errors.UserError, match=named) as caught:
    data.load('fico')
  assert '\n' not in str(caught.value)
  assert 'again' in str(caught.value)


def test_missing_and_prepared(raw, raw_root, cache):
  before = data.load('fico')
  elsewhere = raw.rename(raw_root / 'elsewhere')
  with pytest.raises(errors.MissingDataError) as caught:
    data.load('fico')
  for part in (str(raw_root / 'fico'), 'JAXLAB_DATA', 'data prepare fico', CDF):
    assert part in str(caught.value)
  assert str(cache) in data.prepare('fico', str(elsewhere))
  np.testing.assert_array_equal(data.load('fico').pmf, before.pmf)
  assert dict(data.describe('fico'))['levels'] == '3 scores'
  assert 'sound' in data.prepare('fico')
  with pytest.raises(errors.UserError, match='no splits'):
    data.load('fico', 'train')
