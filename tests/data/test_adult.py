"""The census table with the oddities of its files, and the encoding."""

import numpy as np
import pytest

from jaxlab import data, errors
from jaxlab.data import adult, records, tables
from tests.data import published

REAL = ('adult.data.csv', 'adult.test.csv')
ROW = (
  '39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical,'
  ' Not-in-family, White, Male, 2174, 0, 40, United-States, <=50K'
)
MISSING = (
  '52, ?, 209642, HS-grad, 9, Married-civ-spouse, ?, Wife, Black, Female,'
  ' 0, 5, 45, ?, >50K'
)


@pytest.fixture
def raw(raw_root):
  folder = raw_root / 'adult'
  folder.mkdir()
  (folder / 'adult.data').write_text(f'{ROW}\n{MISSING}\n\n')
  (folder / 'adult.test').write_text(
    f'|1x3 Cross validator\n{MISSING}.\n{ROW}.\n\n'
  )
  return folder


def test_values_by_hand(raw):
  train, test = data.load('adult', 'train'), data.load('adult', 'test')
  assert train.labels.tolist() == [0, 1]
  assert test.labels.tolist() == [1, 0]
  assert train.weight.tolist() == [77516, 209642]
  assert train.numeric.tolist() == [[39, 13, 2174, 0, 40], [52, 9, 0, 5, 45]]
  place = train.categorical_names.index
  assert train.categorical[:, place('workclass')].tolist() == ['State-gov', '']
  assert train.categorical[1, place('native-country')] == ''
  assert train.attributes['sex'].tolist() == ['Male', 'Female']
  assert train.attributes['race'].tolist() == ['White', 'Black']
  both = data.load('adult')
  np.testing.assert_array_equal(both.numeric[2:], test.numeric)
  assert both.labels.tolist() == [0, 1, 1, 0]
  assert records.take(both, both.labels == 1).weight.tolist() == [209642] * 2
  with pytest.raises(errors.UserError, match=r"'valid'.*'train' or 'test'"):
    data.load('adult', 'valid')


def test_real_files():
  folder = published.folder(*REAL)
  train = adult.load_adult(folder, 'train')
  test = adult.load_adult(folder, 'test')
  assert (train.labels.size, test.labels.size) == (32561, 16281)
  # Counts of the data set's own description, and of its lines with `?`.
  assert (train.labels.sum(), test.labels.sum()) == (7841, 3846)
  assert ((train.categorical == '').any(axis=1).sum()) == 2399
  assert (train.attributes['sex'] == 'Female').sum() == 10771
  assert set(np.unique(train.attributes['sex'])) == {'Female', 'Male'}
  assert (adult.load_adult(folder).labels.size) == 48842


@pytest.mark.parametrize(
  ('old', 'new', 'named'),
  [
    ('39,', '39.5,', r"adult.data, line 1, column 'age': '39\.5'"),
    ('<=50K', '<50K', r"line 1, column 'income': '<50K'.*<=50K, >50K"),
    ('77516', '?', "column 'fnlwgt'"),
    ('White, ', '', 'line 1: 14 fields, not 15'),
  ],
)
def test_damage_is_named(raw, old, new, named):
  (raw / 'adult.data').write_text(f'{ROW.replace(old, new)}\n{MISSING}\n')
  with pytest.raises(errors.UserError, match=named) as caught:
    data.load('adult', 'train')
  assert '\n' not in str(caught.value)
  assert 'again' in str(caught.value)


def test_missing_and_prepared(raw, raw_root):
  before = data.load('adult')
  (raw / 'adult.test').rename(raw / 'x')
  with pytest.raises(
    errors.MissingDataError, match=r'adult\.test.*JAXLAB_DATA'
  ):
    data.load('adult')
  (raw / 'x').rename(raw / 'adult.test')
  folder = raw.rename(raw_root / 'mine')
  assert '2 files' in data.prepare('adult', str(folder))
  np.testing.assert_array_equal(data.load('adult').weight, before.weight)
  assert dict(data.describe('adult'))['rows'] == '4, 2 with a missing value'


def test_unwritable_cache_is_a_user_error(raw, cache):
  cache.write_text('a file where the folder should be')
  with pytest.raises(errors.UserError, match='JAXLAB_CACHE'):
    data.prepare('adult', str(raw))


def people(numeric, categories):
  n = len(numeric)
  return records.Records(
    np.array(numeric, float),
    np.array(categories).reshape(n, -1),
    np.zeros(n, np.int32),
    np.ones(n),
    {},
    ['x', 'y'],
    ['c'],
  )


def test_encoding_is_learnt_from_the_training_rows():
  train = people([[1, 7], [3, 7], [np.nan, 7]], ['a', 'b', 'a'])
  encoding = records.fit_encoding(train)
  x = records.encode(encoding, train)
  assert x.dtype == np.float32
  np.testing.assert_array_equal(x, [[-1, 0, 1, 0], [1, 0, 0, 1], [0, 0, 1, 0]])
  # New numbers are scaled as before, new categories have no column.
  y = records.encode(encoding, people([[5, 8], [2, np.nan]], ['c', 'b']))
  np.testing.assert_array_equal(y, [[3, 1, 0, 0], [0, 0, 0, 1]])
  rare = records.fit_encoding(train, min_count=2)
  assert records.encode(rare, train)[:, 2:].tolist() == [[1], [0], [1]]
  none = records.fit_encoding(train, min_count=9)
  assert records.encode(none, train).shape == (3, 2)


def test_group_index():
  found = tables.group_index(np.array(['b', 'x', 'a', 'zz']), ['b', 'a'])
  assert found.tolist() == [0, -1, 1, -1]
