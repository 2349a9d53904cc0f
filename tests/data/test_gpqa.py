"""GPQA: options in a seeded order of their own for every row.

The questions are made up: those of the data set must not be put online.
"""

import itertools

import numpy as np
import pytest

from jaxlab import data, errors

HEADER = (
  'Record ID,Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,'
  'Incorrect Answer 3'
)
N = 200


@pytest.fixture
def raw(raw_root):
  folder = raw_root / 'gpqa'
  folder.mkdir()
  write(folder)
  return folder


def write(folder, rows=None):
  rows = rows or [
    f'{i},"Question {i}, please?\nReally?",right {i},"no, {i}",nay {i},not {i}'
    for i in range(N)
  ]
  (folder / 'gpqa_diamond.csv').write_text('\n'.join([HEADER, *rows, '']))


def test_letter_is_where_the_right_option_is(raw):
  found = data.load('gpqa', 'diamond')
  assert found.options.shape == (N, 4)
  assert found.questions[3] == 'Question 3, please?\nReally?'
  for row, (options, letter) in enumerate(
    zip(found.options, found.letters, strict=True)
  ):
    assert options['ABCD'.index(letter)] == f'right {row}'
    assert set(options) == {
      f'right {row}',
      f'no, {row}',
      f'nay {row}',
      f'not {row}',
    }


def test_orders_are_random_but_repeatable(raw):
  first, again = data.load('gpqa'), data.load('gpqa', seed=0)
  np.testing.assert_array_equal(first.options, again.options)
  assert (data.load('gpqa', seed=1).letters != first.letters).mean() > 0.5
  # Each letter in a quarter of 200 rows: more than 5 deviations off is no luck.
  counts = np.unique(first.letters, return_counts=True)[1]
  assert counts.size == 4
  assert np.abs(counts - N / 4).max() < 5 * np.sqrt(N * 3 / 16)
  orders = {tuple(text.split()[0] for text in row) for row in first.options}
  assert len(orders) == len(list(itertools.permutations(range(4))))


def test_order_of_a_row_does_not_depend_on_the_others(raw):
  whole = data.load('gpqa')
  write(raw, ['0,"Question 0",right 0,"no, 0",nay 0,not 0'])
  np.testing.assert_array_equal(data.load('gpqa').options[0], whole.options[0])


def test_damage_is_named(raw):
  write(raw, ['0,Q,a,b,c,d', '1,Q,a,b,,d'])
  with pytest.raises(
    errors.UserError, match=r"diamond.csv, line 3, column 'Incorrect Answer 2'"
  ):
    data.load('gpqa')
  write(raw, ['0,Q,a,b,c'])
  with pytest.raises(errors.UserError, match='line 2: 5 fields, not 6'):
    data.load('gpqa')
  (raw / 'gpqa_diamond.csv').write_text('Question,Answer\nx,y\n')
  with pytest.raises(errors.UserError, match="no column 'Correct Answer'"):
    data.load('gpqa')
  with pytest.raises(errors.UserError, match='seed=-1'):
    data.load('gpqa', seed=-1)


def test_prepared_copy_gives_the_same(raw):
  read = data.load('gpqa', seed=3)
  assert 'diamond 200' in data.prepare('gpqa')
  (raw / 'gpqa_diamond.csv').unlink()
  for a, b in zip(data.load('gpqa', 'diamond', seed=3), read, strict=True):
    np.testing.assert_array_equal(a, b)
  assert 'plain text' in dict(data.describe('gpqa'))['licence']


def test_missing_files_are_named(raw_root):
  with pytest.raises(errors.MissingDataError, match=r'gpqa_main.csv'):
    data.load('gpqa')
