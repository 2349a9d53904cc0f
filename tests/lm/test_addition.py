"""Problems of addition and their splits."""

import numpy as np
import pytest

from jaxlab.lm import addition


@pytest.mark.parametrize(('digits', 'size'), [(1, 100), (2, 10_000)])
def test_splits_share_no_problem_and_hold_all(digits, size):
  found = {}
  for split in ('train', 'test'):
    count = addition.num_problems(digits, split)
    found[split] = addition.problems(digits, split, count, 0)
    with pytest.raises(ValueError, match='there are'):
      addition.problems(digits, split, count + 1, 0)
  tasks = [set(each.task.tolist()) for each in found.values()]
  assert not tasks[0] & tasks[1]
  assert tasks[0] | tasks[1] == set(range(size))
  assert 0.03 < len(tasks[1]) / size < 0.2


def test_texts_and_answers():
  found = addition.Problems(np.array([7, 99]), np.array([35, 99]), 2)
  assert addition.prompts(found) == ['07+35=', '99+99=']
  assert addition.answers(found) == ['42', '198']
  assert [addition.gold(task, 2) for task in found.task] == ['42', '198']


def test_seeds_draw_other_problems_of_the_same_split():
  a, b = (addition.problems(2, 'test', 300, seed) for seed in (0, 1))
  assert set(a.task) != set(b.task)
  learned = addition.problems(2, 'train', 8000, 5)
  assert not set(learned.task) & (set(a.task) | set(b.task))


def test_share_of_wrong_digits():
  rng = np.random.default_rng(0)
  texts = ['7' * 10] * 2000
  wrong = addition.corrupted(texts, 0.15, rng)
  share = np.mean([c != '7' for text in wrong for c in text])
  # A replaced digit is the same by chance one time in ten.
  assert share == pytest.approx(0.15 * 0.9, abs=0.01)
  assert addition.corrupted(texts, 0.0, rng) == texts


@pytest.mark.parametrize(
  ('digits', 'split', 'count'), [(0, 'train', 1), (2, 'dev', 1), (1, 'test', 0)]
)
def test_what_cannot_be_drawn(digits, split, count):
  with pytest.raises(ValueError, match=r'digits|split|problems'):
    addition.problems(digits, split, count, 0)
