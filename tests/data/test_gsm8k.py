"""GSM8K: columns, marks, damage, the prepared copy, the real counts."""

import json

import numpy as np
import pytest

from jaxlab import data, errors
from tests import golden

ROWS = [
  {'question': 'How many?', 'answer': '2*6=<<2*6=12>>12 eggs.\n#### 12'},
  {'question': 'Zwei \u2013 drei?', 'answer': 'All of it.\n#### 1,234'},
  {'question': 'Debt?', 'answer': 'So <<3-5=-2>>-2 in <<1*1=1>>1.\n#### -2'},
]


@pytest.fixture
def raw(raw_root):
  folder = raw_root / 'gsm8k'
  folder.mkdir()
  write(folder / 'train.jsonl', ROWS)
  write(folder / 'test.jsonl', ROWS[:1])
  return folder


def write(path, rows):
  lines = [json.dumps(row, ensure_ascii=False) for row in rows]
  path.write_text('\n'.join([*lines, '']), encoding='utf-8')


def test_columns_by_hand(raw):
  train = data.load('gsm8k', 'train')
  assert train.questions.tolist() == [row['question'] for row in ROWS]
  assert train.answers.tolist() == ['12', '1234', '-2']
  assert train.solutions[0] == ROWS[0]['answer']
  assert train.answers.dtype == object
  assert len(data.load('gsm8k', 'test').answers) == 1


def test_marks_can_be_left_out(raw):
  plain = data.load('gsm8k', 'train', calculator_marks=False)
  assert plain.solutions[0] == '2*6=12 eggs.\n#### 12'
  assert plain.solutions[2] == 'So -2 in 1.\n#### -2'


def test_real_counts(monkeypatch):
  folder = golden.Golden('lora_rlvr').data_folder('gsm8k/train.jsonl')
  monkeypatch.setenv('JAXLAB_DATA', str(folder.parent))
  train, test = (data.load('gsm8k', split) for split in ('train', 'test'))
  assert (len(train.answers), len(test.answers)) == (7473, 1319)
  assert test.answers[:4].tolist() == ['18', '3', '70000', '540']
  assert not any(',' in answer for answer in train.answers)


@pytest.mark.parametrize(
  ('line', 'named'),
  [
    ('{"question": "x"', 'not JSON'),
    ('["x"]', 'not a JSON object'),
    ('{"question": "x"}', "no 'answer'"),
    ('{"question": 5.5, "answer": "#### 1"}', "'question' is 5.5"),
    ('{"question": "x", "answer": "twelve"}', '#### and a number'),
    ('{"question": "x", "answer": "#### twelve"}', '#### and a number'),
  ],
)
def test_damage_is_named(raw, line, named):
  path = raw / 'train.jsonl'
  path.write_text(f'{json.dumps(ROWS[0])}\n\n{line}\n')
  with pytest.raises(errors.UserError, match=named) as caught:
    data.load('gsm8k', 'train')
  assert f'{path}, line 3: ' in str(caught.value)
  assert '\n' not in str(caught.value)


def test_file_without_rows_or_not_text(raw):
  (raw / 'train.jsonl').write_text('\n')
  with pytest.raises(errors.UserError, match=r'train.jsonl has no rows'):
    data.load('gsm8k', 'train')
  (raw / 'train.jsonl').write_bytes(b'\xff\xfe\x00')
  with pytest.raises(errors.UserError, match='is not UTF-8'):
    data.load('gsm8k', 'train')


def test_split_and_files_that_are_not_there(raw):
  with pytest.raises(errors.UserError, match=r"'dev'.*train, test"):
    data.load('gsm8k', 'dev')
  with pytest.raises(errors.UserError, match='split=None'):
    data.load('gsm8k')
  for path in raw.iterdir():
    path.unlink()
  with pytest.raises(errors.MissingDataError) as caught:
    data.load('gsm8k', 'train')
  for part in (str(raw), 'lora_rlvr', 'data prepare gsm8k', 'train.jsonl'):
    assert part in str(caught.value)


def test_prepared_copy_gives_the_same(raw, cache):
  read = data.load('gsm8k', 'train')
  done = data.prepare('gsm8k', str(raw))
  assert 'train 3, test 1 questions' in done
  assert str(cache) in done
  assert 'already' in data.prepare('gsm8k')
  for path in raw.iterdir():
    path.unlink()
  for a, b in zip(data.load('gsm8k', 'train'), read, strict=True):
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)
  rows = dict(data.describe('gsm8k'))
  assert rows['train'] == '3 questions'
  assert str(cache) in rows['read from']
  assert dict(data.describe('gsm8k', 'test'))['test'] == '1 questions'
