"""The credit table of codes."""

import collections

import numpy as np
import pytest

from jaxlab import data, errors
from jaxlab.data import german
from tests.data import published

REAL = 'german.data.csv'
ROW = (
  'A11,6,A34,A43,1169,A65,A75,4,{status},A101,4,A121,67,A143,A152,2,A173,1,'
  'A192,A201,{label}'
)


def row(status, label):
  return ROW.format(status=status, label=label)


def write(root, text, name='german.data'):
  (root / 'german').mkdir(exist_ok=True)
  (root / 'german' / name).write_text(text)


def test_values_by_hand(raw_root):
  statuses = ['A91', 'A92', 'A93', 'A94', 'A95']
  rows = [row(status, 1 + (i == 1)) for i, status in enumerate(statuses)]
  write(raw_root, '\n'.join(rows) + '\n')
  found = data.load('german')
  sex = ['male', 'female', 'male', 'male', 'female']
  assert found.attributes['sex'].tolist() == sex
  assert found.labels.tolist() == [1, 0, 1, 1, 1]  # class 2 is bad
  assert found.labels.dtype == np.int32
  assert found.numeric[0].tolist() == [6, 1169, 4, 4, 67, 2, 1]
  assert found.categorical.shape == (5, 13)


def test_blanks_separate_fields_too(raw_root):
  write(raw_root, row('A92', 2).replace(',', ' ') + ' \n\n')
  found = data.load('german')
  assert found.labels.tolist() == [0]
  assert found.attributes['sex'].tolist() == ['female']


def test_real_file():
  folder = published.folder(REAL)
  found = german.load_german(folder)
  assert (found.labels.size, (found.labels == 0).sum()) == (1000, 300)
  lines = (folder / REAL).read_text().split()
  status = collections.Counter(line.split(',')[8] for line in lines)
  women = (found.attributes['sex'] == 'female').sum()
  assert women == status['A92'] + status['A95'] == 310
  assert found.numeric[:, 1].sum() == sum(int(x.split(',')[4]) for x in lines)


@pytest.mark.parametrize(
  ('text', 'named'),
  [
    (row('A96', 1), "line 2, column 'personal-status': 'A96'.*A91"),
    (row('A91', 0), "line 2, column 'class': '0' is not one of 1, 2"),
    (row('A91', 1)[4:], 'line 2: 20 fields, not 21'),
    (row('A91', 1).replace('1169', ''), "column 'amount': ''"),
  ],
)
def test_damage_is_named(raw_root, text, named):
  write(raw_root, f'{row("A91", 1)}\n{text}\n')
  with pytest.raises(errors.UserError, match=named) as caught:
    data.load('german')
  assert 'german.data' in str(caught.value)
  assert '\n' not in str(caught.value)


@pytest.mark.parametrize('text', [b'', b'\n\n', b'\xff\xfe,'])
def test_not_a_table(raw_root, text):
  write(raw_root, '')
  (raw_root / 'german' / 'german.data').write_bytes(text)
  with pytest.raises(errors.UserError, match=r'german\.data.*again'):
    data.load('german')


def test_missing_and_prepared(raw_root, cache):
  with pytest.raises(errors.MissingDataError, match='data prepare german'):
    data.load('german')
  write(raw_root, row('A92', 2) + '\n')
  mine = (raw_root / 'german').rename(raw_root / 'mine')
  assert str(cache) in data.prepare('german', str(mine))
  rows = dict(data.describe('german'))
  assert rows['rows'] == '1, 1 women'
  assert rows['bad loans'] == '1'
  with pytest.raises(errors.UserError, match='no splits'):
    data.describe('german', 'test')
