"""The recidivism table: repeated headers, the row filter, the prepared copy."""

import collections
import csv

import numpy as np
import pytest

from jaxlab import data, errors
from jaxlab.data import compas
from tests.data import published

REAL = 'compas_two_years_min.csv'
FULL = 'compas-scores-two-years.csv'
RACES = ['Caucasian', 'African-American']
# As published: two columns of the same name, the second one differs here.
HEADER = (
  'id,name,sex,age,race,juv_fel_count,decile_score,juv_misd_count,'
  'juv_other_count,priors_count,days_b_screening_arrest,c_charge_degree,'
  'is_recid,decile_score,score_text,priors_count,two_year_recid'
)
ROWS = [
  '1,"doe, j",Male,30,Caucasian,0,3,1,2,4,-1,F,1,9,Low,99,1',
  '2,x,Female,40,African-American,1,5,0,0,0,30,M,0,9,Medium,99,0',
  '3,x,Male,50,African-American,0,5,0,0,0,-31,M,0,9,Medium,99,1',
  '4,x,Male,50,African-American,0,5,0,0,0,,M,0,9,Medium,99,1',
  '5,x,Male,20,Other,0,10,0,0,1,0,M,-1,9,High,99,1',
  '6,x,Male,20,Other,0,10,0,0,1,0,O,1,9,High,99,1',
  '7,x,Male,20,Other,0,10,0,0,1,0,F,1,9,N/A,99,1',
]


@pytest.fixture
def raw(raw_root):
  folder = raw_root / 'compas'
  folder.mkdir()
  write(folder)
  return folder


def write(folder, rows=ROWS, header=HEADER):
  text = '\n'.join([header, *rows, ''])
  (folder / FULL).write_text(text, encoding='utf-8')


def test_the_first_of_two_equal_headers_counts(raw):
  everyone = data.load('compas', filter='none')
  assert everyone.decile.tolist() == [3, 5, 5, 5, 10, 10, 10]
  assert everyone.priors.tolist() == [4, 0, 0, 0, 1, 1, 1]
  assert everyone.juvenile[0].tolist() == [0, 1, 2]
  assert everyone.labels.dtype == everyone.decile.dtype == np.int32


def test_filter_by_hand(raw):
  kept = compas.load_compas(raw)
  assert kept.age.tolist() == [30, 40]
  assert kept.sex.tolist() == ['Male', 'Female']
  with pytest.raises(errors.UserError, match=r"'all'.*propublica, none"):
    data.load('compas', filter='all')


def test_decile_scores_by_hand(raw):
  everyone = compas.load_compas(raw, 'none')._replace(
    decile=np.array([5, 5, 5, 5, 10, 10, 10])
  )
  scores, groups = compas.decile_scores(everyone, RACES)
  assert groups.tolist() == [0, 1, 1, 1]
  np.testing.assert_allclose(scores, [3 / 4] * 4)
  scores, _ = compas.decile_scores(everyone, RACES, pooled=False)
  np.testing.assert_allclose(scores, [1, 2 / 3, 2 / 3, 2 / 3])
  with pytest.raises(errors.UserError, match=r"'White'.*Caucasian"):
    compas.decile_scores(everyone, ['White'])


def test_real_file():
  folder = published.folder(REAL)
  everyone = compas.load_compas(folder, 'none')
  kept = compas.load_compas(folder)
  assert (everyone.labels.size, kept.labels.size) == (7214, 6172)
  assert np.isin(everyone.race, RACES).sum() == 6150
  assert np.isin(kept.race, RACES).sum() == 5278
  with (folder / REAL).open() as stream:
    rows = list(csv.DictReader(stream))
  count, events = collections.Counter(), collections.Counter()
  for row in rows:
    cell = row['race'], int(row['decile_score'])
    count[cell] += 1
    events[cell] += int(row['two_year_recid'])
  scores, groups = compas.decile_scores(everyone, RACES, pooled=False)
  chosen = np.isin(everyone.race, RACES)
  cells = zip(everyone.race[chosen], everyone.decile[chosen], strict=True)
  np.testing.assert_allclose(scores, [events[c] / count[c] for c in cells])
  # Grouped rates are calibrated: their mean is the base rate.
  for group, race in enumerate(RACES):
    rate = everyone.labels[everyone.race == race].mean()
    np.testing.assert_allclose(scores[groups == group].mean(), rate)


def test_full_and_reduced_file_agree(tmp_path):
  """The reduced file with the columns doubled again is the full file."""
  folder = published.folder(REAL)
  lines = (folder / REAL).read_text().splitlines()
  (tmp_path / FULL).write_text(
    '\n'.join(f'{x},{y}' for x, y in zip(lines, lines, strict=True))
  )
  left, right = compas.load_compas(folder), compas.load_compas(tmp_path)
  for a, b in zip(left, right, strict=True):
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
  ('row', 'named'),
  [
    (ROWS[1].replace(',40,', ',forty,'), "line 3, column 'age': 'forty'"),
    (ROWS[1].replace(',5,', ',11,'), "line 3, column 'decile_score': '11'"),
    (ROWS[1][:-1] + '2', "column 'two_year_recid': '2'.*0 to 1"),
    (ROWS[1] + ',1', 'line 3: 18 fields, not 17'),
  ],
)
def test_damage_is_named(raw, row, named):
  write(raw, [ROWS[0], row])
  with pytest.raises(
    errors.UserError, match=f'{FULL}, {named}' if named[0] == 'l' else named
  ) as caught:
    data.load('compas')
  assert '\n' not in str(caught.value)


def test_missing_column_and_file(raw):
  write(raw, header=HEADER.replace('is_recid', 'recid'))
  with pytest.raises(errors.UserError, match="no column 'is_recid'"):
    data.load('compas')
  (raw / FULL).unlink()
  with pytest.raises(errors.MissingDataError) as caught:
    data.load('compas')
  for part in (str(raw), 'JAXLAB_DATA', 'data prepare compas', FULL):
    assert part in str(caught.value)


def test_prepared_copy_gives_the_same(raw, cache):
  read = [data.load('compas', filter=name) for name in compas.FILTERS]
  done = data.prepare('compas', str(raw))
  assert 'jaxlab_compas' in done
  assert str(cache) in done
  assert 'already' in data.prepare('compas')
  (raw / FULL).unlink()
  for name, expected in zip(compas.FILTERS, read, strict=True):
    for a, b in zip(data.load('compas', filter=name), expected, strict=True):
      assert a.dtype == b.dtype
      np.testing.assert_array_equal(a, b)
  rows = dict(data.describe('compas'))
  assert rows['rows'] == '7; 2 after filter'
  assert str(cache) in rows['read from']
