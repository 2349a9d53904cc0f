"""The reader against the files' own scores and against damaged files."""

import csv
import itertools
import warnings

import numpy as np
import pytest

from jaxlab import errors
from jaxlab.data.caption_contest import (
  REWARD_VALUES,
  contests,
  load_caption_contest,
)

# Contest, algorithm, captions, fewest and most votes of a caption.
FACTS = [
  ('510', 'LilUCB', 3905, 5, 69),
  ('510', 'RoundRobin', 3905, 8, 11),
  ('540', 'Random', 4475, 65, 140),
  ('558', 'LilUCB', 3925, 81, 1050),
  ('559', 'RandomSamping', 138, 412, 487),
  ('560', 'KLUCB_original', 4482, 6, 184),
  ('587', 'KLUCB', 6014, 28, 3727),
  ('600', 'KLUCB', 6043, 9, 4550),
  ('619', 'KLUCB', 9719, 32, 8348),
  ('651', 'KLUCB', 9250, 195, 303),
  ('671', 'KLUCB', 3764, 34, 9648),
  ('690', 'KLUCB', 4205, 50, 12390),
  ('691', 'KLUCB', 3660, 48, 12738),
]
HEADER = (
  'rank,funny,somewhat_funny,unfunny,count,score,precision,contest,caption'
)


def write(folder, *rows, header=HEADER, name='700_summary_KLUCB.csv'):
  (folder / name).write_text('\n'.join([header, *rows]) + '\n')
  return folder


@pytest.mark.filterwarnings('ignore:600_summary')
@pytest.mark.parametrize(
  ('contest', 'algorithm', 'size', 'fewest', 'most'), FACTS
)
def test_facts(caption_folder, contest, algorithm, size, fewest, most):
  arms = load_caption_contest(caption_folder, contest, algorithm)
  path = caption_folder / f'{contest}_summary_{algorithm}.csv'
  with path.open(encoding='utf-8', newline='') as stream:
    rows = list(csv.DictReader(stream))
  assert len(arms.captions) == size
  assert (arms.counts.min(), arms.counts.max()) == (fewest, most)
  assert arms.captions == [row['caption'] for row in rows]
  score = np.array([float(row['score']) for row in rows])
  np.testing.assert_allclose(arms.mu, (score - 1) / 2, rtol=0, atol=1e-12)
  names = ('unfunny', 'somewhat_funny', 'funny')
  votes = [[int(row[name]) for name in names] for row in rows]
  np.testing.assert_allclose(arms.probs * arms.counts[:, None], votes)
  assert arms.suspect_rows == ([0] if contest == '600' else [])


def test_line_breaks_do_not_split_rows(caption_folder):
  path = caption_folder / '651_summary_KLUCB.csv'
  assert path.read_bytes().count(b'\n') == 9468
  arms = load_caption_contest(caption_folder, 651)
  assert len(arms.captions) == 9250
  assert any('\n' in caption for caption in arms.captions)
  assert arms.mu.dtype == arms.probs.dtype == np.float64
  assert arms.counts.dtype == np.int64
  assert arms.counts.sum() == 2249813
  assert abs(arms.mu.max() - 0.3857758620689655) < 1e-9
  assert abs(arms.mu.mean() - 0.14258830660503086) < 1e-9
  assert (arms.mu >= arms.mu.max() - 0.05).sum() == 9
  np.testing.assert_allclose(arms.probs.sum(axis=1), 1, atol=1e-12)
  np.testing.assert_allclose(arms.probs @ REWARD_VALUES['mean'], arms.mu)


def test_equal_captions_are_separate_arms(caption_folder):
  arms = load_caption_contest(caption_folder, '558')
  assert len(arms.captions) == 3925
  assert len(set(arms.captions)) == 3874


def test_stuffed_row_is_reported_and_dropped_on_request(caption_folder):
  with pytest.warns(UserWarning, match=r'600_summary_KLUCB.csv.*\[0\].*kept'):
    kept = load_caption_contest(caption_folder, 600)
  with pytest.warns(UserWarning, match='dropped'):
    dropped = load_caption_contest(caption_folder, 600, drop_suspect=True)
  assert abs(kept.mu[0] - (2.9989177489177488 - 1) / 2) < 1e-12
  assert dropped.suspect_rows == kept.suspect_rows == [0]
  assert dropped.captions == kept.captions[1:]
  assert abs(dropped.mu.max() - 0.535) < 0.002


def test_several_algorithms_must_be_named(caption_folder):
  with pytest.raises(errors.UserError, match=r'510.*LilUCB, RoundRobin'):
    load_caption_contest(caption_folder, 510)
  with pytest.raises(errors.UserError, match="'KLUCB'; it has LilUCB, Round"):
    load_caption_contest(caption_folder, 510, 'KLUCB')
  with pytest.raises(errors.MissingDataError, match=r'511.*510, 540'):
    load_caption_contest(caption_folder, 511)


def test_contests_are_listed(caption_folder, tmp_path):
  assert set(FACTS[i][:2] for i in range(13)) <= set(contests(caption_folder))
  write(tmp_path, '1,1,0,0,1,3.0,0,508,x', name='508-round1_summary_A-b.csv')
  (tmp_path / 'notes.csv').touch()
  assert contests(tmp_path) == [('508-round1', 'A-b')]
  assert contests(tmp_path / 'absent') == []
  assert load_caption_contest(tmp_path, '508-round1').captions == ['x']
  with pytest.raises(errors.MissingDataError, match='absent'):
    load_caption_contest(tmp_path / 'absent', 651)


def test_values_by_hand(tmp_path):
  write(
    tmp_path,
    '1,6,3,1,10,2.5,0.2,700,"Say ""cheese"", please\nor not"',
    '2,0,2,2,4,1.5,0.3,700,plain',
    '3,0,1,2,3,1.333,0.3,700,rounded',
    '',
  )
  arms = load_caption_contest(str(tmp_path), 700)
  np.testing.assert_allclose(arms.mu, [0.75, 0.25, 1 / 6])
  np.testing.assert_allclose(arms.probs[0], [0.1, 0.3, 0.6])
  assert arms.counts.tolist() == [10, 4, 3]
  assert arms.captions[0] == 'Say "cheese", please\nor not'
  funny = load_caption_contest(tmp_path, 700, score='funny_rate')
  np.testing.assert_allclose(funny.mu, [0.6, 0, 0])
  enough = load_caption_contest(tmp_path, 700, min_count=4)
  assert enough.counts.tolist() == [10, 4]


def test_column_order_and_extra_columns_do_not_matter(tmp_path):
  header = 'caption,extra,unfunny,target_id,funny,somewhat_funny'
  write(tmp_path, 'a,z,1,9,2,1', header=header)
  arms = load_caption_contest(tmp_path, 700)
  assert arms.probs.tolist() == [[0.25, 0.25, 0.5]]


def test_suspect_needs_share_and_count(tmp_path):
  votes = [(91, 0, 9), (91, 0, 10), (100, 0, 1), (99, 0, 1), (92, 5, 5)]
  rows = [
    f'{f},{s},{u},{f + s + u},{(3 * f + 2 * s + u) / (f + s + u)},c{i}'
    for i, (f, s, u) in enumerate(votes)
  ]
  header = 'funny,somewhat_funny,unfunny,count,score,caption'
  with pytest.warns(UserWarning, match='stuffed'):
    arms = load_caption_contest(write(tmp_path, *rows, header=header), 700)
  # Shares .91 of 100, .901, .990, .99 of 100 and .902.
  assert arms.suspect_rows == [1, 2, 4]


def test_rows_without_votes_are_dropped_and_counted(tmp_path):
  write(
    tmp_path,
    '1,0,0,0,0,,,700,a',
    '2,1,1,0,2,2.5,0.5,700,b',
    '3,0,0,0,0,nan,,700,c',
  )
  with pytest.warns(UserWarning, match='2 rows with count = 0 dropped'):
    arms = load_caption_contest(tmp_path, 700)
  assert arms.captions == ['b']
  with warnings.catch_warnings():
    warnings.simplefilter('ignore')
    with pytest.raises(errors.UserError, match='min_count=3'):
      load_caption_contest(tmp_path, 700, min_count=3)


@pytest.mark.parametrize(
  'column', ['funny', 'somewhat_funny', 'unfunny', 'caption']
)
def test_missing_column_is_named(tmp_path, column):
  names = HEADER.split(',')
  names[names.index(column)] = 'other'
  write(tmp_path, '1,6,3,1,10,2.5,0.2,700,a', header=','.join(names))
  with pytest.raises(ValueError, match=f"700_summary_KLUCB.csv.*'{column}'"):
    load_caption_contest(tmp_path, 700)


@pytest.mark.parametrize(
  ('row', 'named'),
  [
    ('2,6,3,1,11,2.5,0.2,700,a', "'count', row 1: 11"),
    ('2,6,3,1,10,2.4,0.2,700,a', "'score', row 1: 2.4"),
    ('2,6,3,1,10,,0.2,700,a', "'score', row 1: nan"),
    ('2,-6,3,13,10,2.5,0.2,700,a', "'funny', row 1: '-6'"),
    ('2,6,3.5,1,10,2.5,0.2,700,a', "'somewhat_funny', row 1: '3.5'"),
    ('2,6,3,many,10,2.5,0.2,700,a', "'unfunny', row 1: 'many'"),
    ('2,6,3,1,inf,2.5,0.2,700,a', "'count', row 1: 'inf'"),
    ('2,6,3,1,10,2.5,0.2,700', 'row 1: 8 fields'),
    ('2,6,3,1,10,2.5,0.2,700,a,b', 'row 1: 10 fields'),
  ],
)
def test_damage_is_named(tmp_path, row, named):
  write(tmp_path, '1,6,3,1,10,2.5,0.2,700,a', row)
  with pytest.raises(ValueError, match=named) as caught:
    load_caption_contest(tmp_path, 700)
  assert '700_summary_KLUCB.csv' in str(caught.value)
  assert isinstance(caught.value, errors.UserError)


@pytest.mark.parametrize(
  ('text', 'named'),
  [
    (b'', "no column 'unfunny'"),
    (HEADER.encode(), 'no rows'),
    (HEADER.encode() + b'\n1,6,3,1,10,2.5,0.2,700,\xff\n', 'UTF-8'),
  ],
)
def test_not_a_table(tmp_path, text, named):
  (tmp_path / '700_summary_KLUCB.csv').write_bytes(text)
  with pytest.raises(errors.UserError, match=named):
    load_caption_contest(tmp_path, 700)


def test_unreadable_file(tmp_path):
  (tmp_path / '700_summary_KLUCB.csv').mkdir()
  with pytest.raises(errors.UserError, match=r'KLUCB\.csv: Is a dir'):
    load_caption_contest(tmp_path, 700)


def test_bad_options(tmp_path):
  write(tmp_path, '1,6,3,1,10,2.5,0.2,700,a')
  with pytest.raises(errors.UserError, match='min_count=0'):
    load_caption_contest(tmp_path, 700, min_count=0)
  with pytest.raises(errors.UserError, match=r"'median'.*mean, funny_rate"):
    load_caption_contest(tmp_path, 700, score='median')


def test_file_order_is_by_rank(caption_folder):
  """Guards the warning of the docstring: the first arm is the best."""
  mu = load_caption_contest(caption_folder, 651).mu
  assert all(a >= b for a, b in itertools.pairwise(mu))
