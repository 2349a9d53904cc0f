"""AIME: three kinds of files, whole answers from 0 to 999."""

import json

import numpy as np
import pytest

from jaxlab import data, errors

ROWS = [
  {'ID': '2024-I-1', 'Problem': 'One, or two?', 'Answer': 25},
  {'ID': '2024-I-2', 'Problem': 'Three?', 'Answer': '007'},
  {'ID': '2024-I-3', 'Problem': 'None?', 'Answer': '0'},
]


@pytest.fixture
def raw(raw_root):
  folder = raw_root / 'aime'
  folder.mkdir()
  return folder


def write(folder):
  lower = [{key.lower(): value for key, value in row.items()} for row in ROWS]
  lines = '\n'.join(json.dumps(row) for row in ROWS)
  (folder / 'aime-2024.jsonl').write_text(lines)
  (folder / 'lower.json').write_text(json.dumps(lower))
  fields = (f'{r["ID"]},"{r["Problem"]}",{r["Answer"]}' for r in ROWS)
  (folder / 'table.csv').write_text('\n'.join(['ID,Problem,Answer', *fields]))


def test_all_kinds_of_files_say_the_same(raw):
  write(raw)
  for split in ('aime_2024', 'lower', 'table'):
    problems = data.load('aime', split)
    assert problems.answers.tolist() == ['25', '7', '0']
    assert problems.ids.tolist() == [row['ID'] for row in ROWS]
    assert problems.questions[0] == 'One, or two?'
  with pytest.raises(errors.UserError, match='aime_2024, lower, table'):
    data.load('aime')


def test_one_file_needs_no_split(raw):
  (raw / 'a.jsonl').write_text(json.dumps(ROWS[0]))
  assert data.load('aime').answers.tolist() == ['25']


@pytest.mark.parametrize('answer', ['1000', '-1', '2.5', 'x', '', 1000, True])
def test_answer_out_of_range(raw, answer):
  path = raw / 'a.jsonl'
  path.write_text(
    '\n'.join(
      json.dumps(row) for row in (ROWS[0], ROWS[1] | {'Answer': answer})
    )
  )
  with pytest.raises(errors.UserError) as caught:
    data.load('aime')
  assert f'{path}, line 2: ' in str(caught.value)
  assert '\n' not in str(caught.value)


def test_damaged_list_and_table(raw):
  (raw / 'a.json').write_text('[{"id": 1, "problem": "x", "answer": 3}, 4]')
  with pytest.raises(errors.UserError, match=r'a.json, item 2 is no object'):
    data.load('aime')
  (raw / 'a.json').write_text('{}')
  with pytest.raises(errors.UserError, match='is not a JSON list'):
    data.load('aime')
  (raw / 'a.json').unlink()
  (raw / 'b.csv').write_text('ID,Problem,Answer\n1,x,5\n2,y,1000\n')
  with pytest.raises(errors.UserError, match=r'b.csv, line 3: answer .1000.'):
    data.load('aime')


def test_prepared_copy_gives_the_same(raw):
  write(raw)
  read = data.load('aime', 'table')
  assert 'table 3' in data.prepare('aime')
  for path in raw.iterdir():
    path.unlink()
  for a, b in zip(data.load('aime', 'table'), read, strict=True):
    np.testing.assert_array_equal(a, b)
