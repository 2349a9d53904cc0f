"""Tests of examinees: matrices, logs, splits, the prepared copy."""

import csv
import json

import numpy as np
import pytest

from jaxlab import data, errors
from jaxlab.data import lsat, response_matrix
from jaxlab.data.response_matrix import assemble, from_columns, split_rows
from tests.golden import Golden

GOLDEN = Golden('gpm')


@pytest.fixture
def folder(raw_root, request):
  """The folder of a data set, named by the test."""
  place = raw_root / request.param
  place.mkdir()
  return place


def test_folds_deal_out_all_examinees():
  rows = {
    (fold, split): split_rows(5000, split, fold=fold)
    for fold in range(5)
    for split in ('train', 'validation', 'test')
  }
  for fold in range(5):
    sizes = [len(rows[fold, s]) for s in ('train', 'validation', 'test')]
    assert sizes == [3200, 800, 1000]
    parts = [rows[fold, s] for s in ('train', 'validation', 'test')]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(5000))
    following = rows[(fold + 1) % 5, 'test']
    assert np.isin(rows[fold, 'validation'], following).all()
  tests = [rows[fold, 'test'] for fold in range(5)]
  assert np.array_equal(np.sort(np.concatenate(tests)), np.arange(5000))
  again = split_rows(5000, 'test', seed=1)
  assert not np.array_equal(again, rows[0, 'test'])
  np.testing.assert_array_equal(split_rows(3, None), [0, 1, 2])


@pytest.mark.parametrize(
  ('settings', 'named'),
  [
    ({'split': 'dev'}, "split='dev' is not one of train, validation, test"),
    ({'split': 'test', 'fold': 5}, 'fold=5 is not one of 0 to 4'),
  ],
)
def test_unknown_splits_are_named(settings, named):
  with pytest.raises(errors.UserError, match=named):
    split_rows(10, **settings)


class TestRealFiles:
  @pytest.fixture(autouse=True)
  def real(self, monkeypatch):
    folder = GOLDEN.data_folder('*.npz', 'lsat_patterns.csv')
    monkeypatch.setenv('JAXLAB_DATA', str(folder.parent))
    return folder

  @pytest.mark.parametrize('part', ['quant', 'verbal'])
  def test_swesat(self, real, part):
    found = data.load(f'swesat_{part}')
    with np.load(real / f'swesat22b_{part}.npz') as content:
      raw, key = content['raw'], content['key']
    np.testing.assert_array_equal(found.responses, raw == key)
    assert found.mask.all()
    assert found.q_matrix.sum(0).tolist() == [20] * 4
    score = found.responses.sum(1)
    alpha = 80 / 79 * (1 - found.responses.var(0).sum() / score.var())
    np.testing.assert_allclose(
      alpha, {'quant': 0.938, 'verbal': 0.926}[part], atol=5e-4
    )
    strict = data.load(f'swesat_{part}', omitted='missing')
    share = {'quant': 0.010, 'verbal': 0.003}[part]
    np.testing.assert_allclose(1 - strict.mask.mean(), share, atol=5e-4)
    assert not strict.responses[~strict.mask].any()

  def test_the_parts_share_no_examinee(self):
    parts = [data.load(f'swesat_{part}') for part in ('quant', 'verbal')]
    assert not np.isin(parts[0].examinees, parts[1].examinees).any()
    score = [part.responses.sum(1) for part in parts]
    assert abs(np.corrcoef(*score)[0, 1]) < 0.05

  def test_splits(self):
    whole = data.load('swesat_quant')
    test = data.load('swesat_quant', 'test', fold=3, seed=7)
    rows = split_rows(5000, 'test', fold=3, seed=7)
    np.testing.assert_array_equal(test.responses, whole.responses[rows])
    np.testing.assert_array_equal(test.examinees, whole.examinees[rows])
    assert dict(data.describe('swesat_quant', 'test'))['examinees'] == '1,000'

  @pytest.mark.parametrize(('form', 'people'), [(1, 1008), (2, 1401)])
  def test_national_maths(self, real, form, people):
    found = data.load('national_maths', form=form)
    assert found.responses.shape == (people, 28)
    with np.load(real / 'swedish_national_maths.npz') as content:
      score = content[f'form{form}']
    single = data.load('national_maths', form=form, items='single')
    points = score.max(0) == 1
    assert points.sum() in (9, 10)
    np.testing.assert_array_equal(single.responses, score[:, points])
    np.testing.assert_array_equal(found.items[points], single.items)
    full = (score == score.max(0)).mean(0)
    np.testing.assert_allclose(found.responses.mean(0), full)

  def test_lsat(self, real):
    with (real / 'lsat_patterns.csv').open() as stream:
      rows = list(csv.DictReader(stream))
    for section in (6, 7):
      found = data.load(f'lsat{section}')
      assert found.responses.shape == (1000, 5)
      first = sum(
        int(row[f'lsat{section}']) for row in rows if row['pattern'][0] == '1'
      )
      assert found.responses[:, 0].sum() == first

  def test_unknown_options_are_named(self):
    for name, options in [
      ('swesat_quant', {'omitted': 'zero'}),
      ('national_maths', {'form': 3}),
      ('national_maths', {'items': 'hard'}),
    ]:
      (option,) = options
      with pytest.raises(errors.UserError, match=f'{option}=.* is not one of'):
        data.load(name, **options)


@pytest.mark.parametrize('folder', ['swesat_quant'], indirect=True)
def test_damaged_arrays_are_named(folder, cache):
  path = folder / 'swesat22b_quant.npz'
  with pytest.raises(errors.MissingDataError, match='data prepare swesat_qua'):
    data.load('swesat_quant')
  for content, named in [
    ({'raw': np.zeros((3, 2), np.uint8)}, "'key' must be [?], found no"),
    ({'raw': np.zeros(3), 'key': np.zeros(2)}, "'raw' must be [?] x [?]"),
    ({'raw': np.zeros((3, 2)), 'key': np.zeros(3)}, '3 keys for 2 items'),
  ]:
    np.savez(path, **content)
    with pytest.raises(errors.UserError, match=named):
      data.load('swesat_quant')
  path.write_bytes(b'none')
  with pytest.raises(errors.UserError, match='is not an npz file'):
    data.load('swesat_quant')
  raw = np.array([[0, 1, 255], [2, 1, 0]], np.uint8)
  np.savez(path, raw=raw, key=np.array([0, 1, 2], np.uint8))
  mine = folder.rename(folder.parent / 'mine')
  assert str(cache) in data.prepare('swesat_quant', str(mine))
  found = data.load('swesat_quant', omitted='missing')
  assert found.responses.tolist() == [[1, 1, 0], [0, 1, 0]]
  assert found.mask.tolist() == [[True, True, False], [True, True, True]]


@pytest.mark.parametrize('folder', ['lsat6'], indirect=True)
def test_damaged_patterns_are_named(folder):
  path = folder / 'lsat_patterns.csv'
  path.write_text('pattern,lsat6,lsat7\n00000,2,0\n01102,1,0\n')
  with pytest.raises(errors.UserError, match="line 3, column 'pattern'"):
    data.load('lsat6')
  path.write_text('pattern,lsat6,lsat7\n00000,2,0\n01101,1,0\n')
  assert lsat.source(6).load(folder=folder).responses.sum() == 3
  with pytest.raises(errors.UserError, match='no column'):
    path.write_text('pattern,lsat7\n00000,2\n')
    data.load('lsat6')


class TestAssemble:
  EXAMINEE = np.array(['b', 'b', 'a', 'a', 'c', 'b'])
  ITEM = np.array(['q2', 'q1', 'q1', 'q3', 'q1', 'q2'])
  RIGHT = np.array([1, 0, 1, 1, 0, 1])

  def test_by_hand(self):
    triplets = from_columns(
      'log', self.EXAMINEE, self.ITEM, self.RIGHT, {'q1': 'yx', 'q3': 'y'}
    )
    found = assemble(triplets)
    assert found.examinees.tolist() == ['b', 'a', 'c']
    assert found.items.tolist() == ['q2', 'q1', 'q3']
    assert found.responses.tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    mask = [[True, True, False], [False, True, True], [False, True, False]]
    assert found.mask.tolist() == mask
    assert found.concepts == ('x', 'y')
    assert found.q_matrix.tolist() == [[0, 0], [1, 1], [0, 1]]
    assert found.responses.dtype == np.int8

  def test_few_answers_are_dropped_until_it_holds(self):
    triplets = from_columns(
      'log', self.EXAMINEE, self.ITEM, self.RIGHT, {'q2': 'z', 'q1': 'x'}
    )
    found = assemble(triplets, min_examinees=2)
    assert found.items.tolist() == ['q1']
    assert found.concepts == ('x',)
    # Without q2 and q3 nobody has two answers.
    with pytest.raises(errors.UserError, match=r'min_items=2.*leave nothing'):
      assemble(triplets, min_items=2, min_examinees=2)

  def test_conflicts(self):
    right = self.RIGHT.copy()
    right[-1] = 0
    columns = (self.EXAMINEE, self.ITEM, right)
    with pytest.raises(
      errors.UserError, match=r'log: 1 pairs .* b and q2; .* leave that row'
    ):
      from_columns('log', *columns)
    found = assemble(from_columns('log', *columns, keep_first=True))
    assert found.responses[0].tolist() == [1, 0, 0]

  def test_what_does_not_fit(self, monkeypatch):
    monkeypatch.setattr(response_matrix.triplets, '_LARGEST', 8)
    triplets = from_columns('log', self.EXAMINEE, self.ITEM, self.RIGHT)
    with pytest.raises(errors.UserError, match='3 examinees by 3 items do not'):
      assemble(triplets)


def write_educat(folder):
  (folder / 'train_triples.csv').write_text(
    'student_id,question_id,correct\n0,0,1\n0,1,0\n1,1,1\n0,1,0\n'
  )
  (folder / 'test_triples.csv').write_text(
    'student_id,question_id,correct\n0,1,1\n'
  )
  (folder / 'concept_map.json').write_text('{"0": [3], "1": [3, 7]}')
  (folder / 'metadata.json').write_text(
    '{"num_train_students": 2, "num_questions": 2, "num_concepts": 2}'
  )


@pytest.mark.parametrize('folder', ['educat'], indirect=True)
class TestEducat:
  def test_by_hand(self, folder):
    write_educat(folder)
    found = data.load('educat')
    assert found.examinees.tolist() == ['test/0', 'train/0', 'train/1']
    assert found.items.tolist() == ['1', '0']
    assert found.responses.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert found.mask.tolist() == [[True, False], [True, True], [True, False]]
    assert found.q_matrix.tolist() == [[1, 1], [1, 0]]
    (folder / 'test_triples.csv').unlink()
    (folder / 'train_triples.csv').rename(folder / 'triplets.csv')
    assert data.load('educat').examinees.tolist() == ['0', '1']

  def test_damage_is_named(self, folder):
    write_educat(folder)
    triples = folder / 'train_triples.csv'
    text = triples.read_text()
    for content, named in [
      (text + '1,1,0\n', r'1 pairs of examinee and item .* train/1 and 1'),
      (text + '1,1,2\n', "line 6, column 'correct': '2'"),
      (text.replace('correct', 'label'), "no column 'correct'"),
      (text + '1,2,1\n', r'metadata\.json .* num_questions is at least 3'),
    ]:
      triples.write_text(content)
      with pytest.raises(errors.UserError, match=named):
        data.load('educat')
    triples.write_text(text)
    (folder / 'concept_map.json').write_text('[]')
    with pytest.raises(errors.UserError, match=r'concept_map\.json must be'):
      data.load('educat')
    (folder / 'concept_map.json').write_text('{')
    with pytest.raises(
      errors.UserError, match=r'concept_map\.json is not JSON'
    ):
      data.load('educat')
    (folder / 'concept_map.json').unlink()
    with pytest.raises(errors.MissingDataError, match=r'concept_map\.json'):
      data.load('educat')

  def test_prepared_copy_gives_the_same(self, folder, cache):
    write_educat(folder)
    before = data.load('educat')
    done = data.prepare('educat', str(folder))
    assert 'educat prepared: 4 answers of 4 files' in done
    assert str(cache) in done
    assert 'already' in data.prepare('educat')
    for path in folder.iterdir():
      path.unlink()
    after = data.load('educat')
    for left, right in zip(before, after, strict=True):
      np.testing.assert_array_equal(left, right)
    assert after.mask.dtype == bool
    rows = dict(data.describe('educat'))
    assert rows['answers'] == '4'
    assert str(cache) in rows['read from']


@pytest.mark.parametrize('folder', ['bobcat'], indirect=True)
def test_bobcat(folder):
  people = [
    {'q_ids': [5, 2], 'labels': [1, 0], 'ans': [3, 3]},
    {'q_ids': [2], 'labels': [1.0]},
  ]
  path = folder / 'train_task_x.json'
  path.write_text(json.dumps(people))
  found = data.load('bobcat')
  assert found.items.tolist() == ['5', '2']
  assert found.responses.tolist() == [[1, 0], [0, 1]]
  assert found.mask.tolist() == [[True, True], [False, True]]
  assert found.q_matrix is None
  (folder / 'test_task_x.json').write_text(json.dumps(people[:1]))
  names = ['test_task_x/0', 'train_task_x/0', 'train_task_x/1']
  assert data.load('bobcat').examinees.tolist() == names
  for content, named in [
    ('{}', 'does not hold a list of examinees'),
    ('[{"q_ids": [1], "labels": []}]', 'at place 0 an object with lists'),
    ('[{"q_ids": [1], "labels": [2]}]', 'labels 0 or 1'),
    ('[1]', 'at place 0'),
  ]:
    path.write_text(content)
    with pytest.raises(errors.UserError, match=named):
      data.load('bobcat')


@pytest.mark.parametrize('folder', ['eedi'], indirect=True)
def test_eedi(folder):
  log = folder / 'train_task_3_4.csv'
  log.write_text(
    'QuestionId,UserId,AnswerId,IsCorrect,CorrectAnswer,AnswerValue\n'
    '898,2111,280203,1,2,2\n767,3062,55638,1,3,3\n898,3062,1,0,2,1\n'
  )
  found = data.load('eedi')
  assert found.examinees.tolist() == ['2111', '3062']
  assert found.items.tolist() == ['898', '767']
  assert found.responses.tolist() == [[1, 0], [0, 1]]
  assert found.q_matrix is None
  about = folder / 'question_metadata_task_3_4.csv'
  about.write_text('QuestionId,SubjectId\n898,"[3, 71]"\n767,"[3]"\n')
  found = data.load('eedi')
  assert found.concepts == ('3', '71')
  assert found.q_matrix.tolist() == [[1, 1], [1, 0]]
  about.write_text('QuestionId,SubjectId\n898,none\n')
  with pytest.raises(errors.UserError, match="column 'SubjectId': 'none'"):
    data.load('eedi')
  about.unlink()
  log.write_text(log.read_text() + '898,2111,1,0,2,1\n')
  with pytest.raises(errors.UserError, match=r'1 pairs of .* 2111 and 898'):
    data.load('eedi')


@pytest.mark.parametrize('folder', ['assistments2009'], indirect=True)
def test_assistments(folder):
  """Rows of one answer, for each skill, count once; tries count first."""
  text = (
    'order_id,user_id,problem_id,correct,skill_id,skill_name\n'
    '1,64525,51424,1,1,Fl\xe4che\n1,64525,51424,1,8.0,Box\n'
    '2,64525,51435,0,,\n3,70363,51424,0,NA,\n4,70363,51424,1,1,x\n'
  )
  path = folder / 'skill_builder_data.csv'
  path.write_bytes(text.encode('latin-1'))
  found = data.load('assistments2009')
  assert found.examinees.tolist() == ['64525', '70363']
  assert found.responses.tolist() == [[1, 0], [0, 0]]
  assert found.mask.tolist() == [[True, True], [True, False]]
  assert found.concepts == ('1', '8')
  assert found.q_matrix.tolist() == [[1, 1], [0, 0]]
  path.write_text(text.replace(',0,,', ',0.5,,'), encoding='latin-1')
  with pytest.raises(
    errors.UserError, match=r"line 4, column 'correct': '0\.5'"
  ):
    data.load('assistments2009')
