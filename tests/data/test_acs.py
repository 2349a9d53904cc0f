"""Person files of the American Community Survey."""

import numpy as np
import pytest

from jaxlab import data, errors
from jaxlab.data import acs

HEADER = 'RT,AGEP,COW,SCHL,MAR,OCCP,POBP,RELP,WKHP,SEX,RAC1P,PINCP,PWGTP,X'
# The filter keeps the first two rows; one cause each drops the others.
ROWS = [
  '"P",40,1,21,1,0010,006,00,40,1,1,50000,10,',
  '"P",17,3,16,5,4720,036,02,20,2,2,50001,1,y',
  '"P",16,1,16,5,4720,036,02,20,2,2,60000,5,',
  '"P",40,1,21,1,4720,036,00,40,1,1,100,5,',
  '"P",40,1,21,1,4720,036,00,,1,1,60000,5,',
  '"P",40,1,21,1,4720,036,00,40,1,1,60000,0,',
  '"P",5,,02,5,,006,02,,1,6,,5,',
]


def write(root, rows=ROWS, header=HEADER, name='psam_p06.csv'):
  folder = root / 'acs'
  folder.mkdir(exist_ok=True)
  (folder / name).write_text('\n'.join([header, *rows, '']))
  return folder / name


def test_filter_and_values_by_hand(raw_root):
  found = acs.load_acs(write(raw_root))
  assert found.numeric_names == ('AGEP', 'SCHL', 'WKHP')
  assert found.numeric.tolist() == [[40, 21, 40], [17, 16, 20]]
  assert found.labels.tolist() == [0, 1]  # strictly over 50,000
  assert found.weight.tolist() == [10, 1]
  assert found.attributes['sex'].tolist() == ['Male', 'Female']
  assert found.attributes['race'].tolist() == ['White', 'Black']
  row = dict(zip(found.categorical_names, found.categorical[0], strict=True))
  assert row == {
    'COW': '1',
    'MAR': '1',
    'OCCP': '10',
    'POBP': '6',
    'RELP': '0',
    'SEX': '1',
    'RAC1P': '1',
  }
  lower = data.load('acs', 'psam_p06', income=40_000)
  assert lower.labels.tolist() == [1, 1]


def test_codes_as_numbers_and_new_relationship(raw_root):
  path = write(raw_root)
  read = acs.load_acs(path)
  rows = [row.replace(',40,1,1,', ',40.0,1.0,1.0,') for row in ROWS]
  write(raw_root, rows, HEADER.replace('RELP', 'RELSHIPP'))
  again = acs.load_acs(path)
  np.testing.assert_array_equal(again.categorical, read.categorical)
  np.testing.assert_array_equal(again.numeric, read.numeric)


def test_a_split_is_a_file(raw_root):
  write(raw_root)
  assert data.load('acs').labels.size == 2
  write(raw_root, ROWS[:1], name='psam_p36.csv')
  assert data.load('acs', 'psam_p36').labels.size == 1
  for split in (None, 'psam_p01'):
    with pytest.raises(errors.UserError, match='psam_p06, psam_p36'):
      data.load('acs', split)
  rows = dict(data.describe('acs', 'psam_p06'))
  assert rows['rows'] == '2, for 11 people'
  assert rows['splits'] == 'psam_p06, psam_p36'


@pytest.mark.parametrize(
  ('rows', 'header', 'named'),
  [
    (ROWS, HEADER.replace('SCHL', 'S'), "no column 'SCHL'"),
    (ROWS, HEADER.replace('RELP', 'R'), "no column 'RELP'"),
    (ROWS[2:], HEADER, 'no one over 16'),
    ([ROWS[0] + ','], HEADER, 'line 2: 15 fields, not 14'),
    ([ROWS[0].replace('50000', 'x')], HEADER, "line 2, column 'PINCP': 'x'"),
    ([ROWS[0].replace(',40,1,1', ',40,3,1')], HEADER, "'SEX': '3'"),
  ],
)
def test_damage_is_named(raw_root, rows, header, named):
  path = write(raw_root, rows, header)
  with pytest.raises(errors.UserError, match=named) as caught:
    acs.load_acs(path)
  assert str(path) in str(caught.value)
  assert '\n' not in str(caught.value)


def test_missing_and_prepared(raw_root, cache):
  with pytest.raises(errors.MissingDataError, match='data prepare acs'):
    data.load('acs')
  with pytest.raises(errors.MissingDataError, match='psam_p'):
    acs.load_acs(raw_root / 'psam_p99.csv')
  mine = write(raw_root).parent.rename(raw_root / 'mine')
  assert str(cache) in data.prepare('acs', str(mine))
  assert data.load('acs').labels.size == 2
