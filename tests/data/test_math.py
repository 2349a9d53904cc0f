r"""MATH: folders of problems, the last box as answer, the subset of lines."""

import json

import numpy as np
import pytest

from jaxlab import data, errors


def problem(solution, kind='Algebra', level='Level 2'):
  return {
    'problem': f'What is {kind}?',
    'level': level,
    'type': kind,
    'solution': solution,
  }


SOLUTIONS = {
  'train/algebra/10.json': r'First \boxed{1}, then \boxed{\frac{1}{2}}.',
  'train/algebra/9.json': r'So $\boxed{\{1, 2\}}$.',
  'train/geometry/1.json': r'It is \boxed 7$.',
  'test/algebra/1.json': r'\boxed{x^{2}}',
}


@pytest.fixture
def raw(raw_root):
  folder = raw_root / 'math'
  for name, solution in SOLUTIONS.items():
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(problem(solution)))
  return folder


def write_subset(folder, *rows):
  lines = ''.join(json.dumps(row) + '\n' for row in rows)
  (folder / 'test500.jsonl').write_text(lines)


def test_columns_by_hand(raw):
  train = data.load('math', 'train')
  assert train.ids.tolist() == [
    'train/algebra/9.json',
    'train/algebra/10.json',
    'train/geometry/1.json',
  ]
  assert train.answers.tolist() == [r'\{1, 2\}', r'\frac{1}{2}', '7']
  assert train.levels[0] == 'Level 2'
  assert data.load('math', 'test').answers.tolist() == ['x^{2}']
  with pytest.raises(errors.UserError, match=r"'test500'.*train, test"):
    data.load('math', 'test500')


def test_subset_names_its_problems_or_has_them(raw):
  whole = {
    'unique_id': 'test/number_theory/5.json',
    'problem': 'Which?',
    'solution': 'That.',
    'answer': '3',
    'subject': 'Number Theory',
    'level': 4,
  }
  named = {'unique_id': 'test/algebra/1.json', 'answer': 'x^2'}
  write_subset(raw, whole, named)
  subset = data.load('math', 'test500')
  assert subset.answers.tolist() == ['3', 'x^2']
  assert subset.levels.tolist() == ['Level 4', 'Level 2']
  assert subset.types.tolist() == ['Number Theory', 'Algebra']
  assert subset.questions[1] == 'What is Algebra?'
  for name in ('test/algebra/2.json', '../math/test/algebra/1.json'):
    write_subset(raw, whole, named | {'unique_id': name})
    with pytest.raises(errors.UserError, match=r'test500.jsonl, line 2: no'):
      data.load('math', 'test500')


@pytest.mark.parametrize(
  ('content', 'named'),
  [
    ('{', 'not JSON'),
    (json.dumps(problem('no answer')), 'no answer in a last'),
    (json.dumps(problem(r'\boxed{1} \boxed{')), 'no answer in a last'),
    ('{"problem": "x"}', "no 'solution'"),
  ],
)
def test_damage_is_named(raw, content, named):
  path = raw / 'train/algebra/9.json'
  path.write_text(content)
  with pytest.raises(errors.UserError, match=named) as caught:
    data.load('math', 'train')
  assert str(caught.value).startswith(f'{path}: ')
  assert '\n' not in str(caught.value)


def test_prepared_copy_gives_the_same(raw):
  """Files of one name in several folders are different files."""
  read = {split: data.load('math', split) for split in ('train', 'test')}
  assert 'train 3, test 1' in data.prepare('math')
  changed = raw / 'train/geometry/1.json'
  text = changed.read_text()
  changed.write_text(text.replace('7', '8'))
  assert 'already' not in data.prepare('math')
  assert data.load('math', 'train').answers[2] == '8'
  changed.write_text(text)
  data.prepare('math')
  for name in SOLUTIONS:
    (raw / name).unlink()
  for split, expected in read.items():
    for a, b in zip(data.load('math', split), expected, strict=True):
      np.testing.assert_array_equal(a, b)


def test_missing_files_are_named(raw_root):
  with pytest.raises(errors.MissingDataError, match=r'train/\*/\*.json'):
    data.load('math', 'train')
