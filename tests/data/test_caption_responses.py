import zipfile

import numpy as np
import pytest

from jaxlab import errors
from jaxlab.data.caption_contest import load_caption_responses

YEARS = [
  'participant_uid,response_time,network_delay,timestamp_query_generated,'
  'alg_label,target,target_id,target_reward',
  'Participant ID,Response Time (s),Network delay (s),Timestamp,'
  'Algorithm label,Target,Target ID,Rating',
]
VOTES = [
  'p,1.5,0.1,2016,Random,"Well, no\nmore",7,3',
  'p,1.5,0.1,2016,LilUCB,other,2,1',
  'q,1.5,0.1,2016,Random,other,2,2.0',
  'q,1.5,0.1,2016,LilUCB,"Well, no\nmore",7,2',
  'q,1.5,0.1,2016,LilUCB,other,3,1',
  'q,1.5,0.1,2016,LilUCB,other,7,1',
]


def archive(folder, header=YEARS[0], votes=VOTES, extra=None):
  path = folder / '510-responses.csv.zip'
  with zipfile.ZipFile(path, 'w') as file:
    file.writestr('510-responses.csv', '\n'.join([header, *votes]) + '\n')
    file.writestr('__MACOSX/._510-responses.csv', b'\x00\xff')
    if extra:
      file.writestr(extra, 'x')
  return path


@pytest.mark.parametrize('header', YEARS)
def test_rewards_by_target_in_file_order(tmp_path, header):
  rewards, lengths, targets = load_caption_responses(archive(tmp_path, header))
  assert rewards.dtype == np.float32
  nan = np.nan
  np.testing.assert_array_equal(
    rewards, [[1, 0.5, 0], [0, 0.5, nan], [0, nan, nan]]
  )
  assert lengths.tolist() == [3, 2, 1]
  # Targets 2 and 3 have one text: equal captions are separate arms.
  assert targets == ['7', '2', '3']


def test_one_algorithm(tmp_path):
  path = archive(tmp_path)
  rewards, lengths, _ = load_caption_responses(path, algorithm='Random')
  np.testing.assert_array_equal(rewards, [[1], [0.5]])
  assert lengths.tolist() == [1, 1]
  with pytest.raises(errors.UserError, match=r"'KLUCB'.*LilUCB, Random"):
    load_caption_responses(path, algorithm='KLUCB')


def test_plain_file_with_text_for_targets(tmp_path):
  path = tmp_path / 'responses.csv'
  path.write_text('Alg,Caption,Answer\nx,"a\nb",1\nx,"a\nb",3\n')
  rewards, _, targets = load_caption_responses(str(path))
  np.testing.assert_array_equal(rewards, [[0, 1]])
  assert targets == ['a\nb']


@pytest.mark.parametrize('rating', ['0', '4', '2.5', '', 'funny'])
def test_bad_rating_is_named(tmp_path, rating):
  votes = [VOTES[0], f'p,1,0,2016,Random,x,2,{rating}']
  with pytest.raises(errors.UserError, match=f"reward', row 1: '{rating}'"):
    load_caption_responses(archive(tmp_path, votes=votes))


def test_damaged_files(tmp_path):
  header = YEARS[0].replace('target_reward', 'other')
  with pytest.raises(errors.UserError, match='no column for the rating'):
    load_caption_responses(archive(tmp_path, header))
  header = 'a,b,c,d,alg,e,f,rating'
  with pytest.raises(errors.UserError, match='no column for the target'):
    load_caption_responses(archive(tmp_path, header))
  with pytest.raises(errors.UserError, match='row 0: 2 fields'):
    load_caption_responses(archive(tmp_path, votes=['a,b']))
  with pytest.raises(errors.UserError, match='no votes'):
    load_caption_responses(archive(tmp_path, votes=[]))
  with pytest.raises(errors.UserError, match='one CSV'):
    load_caption_responses(archive(tmp_path, extra='second.csv'))
  (tmp_path / 'bad.zip').write_bytes(b'no archive')
  with pytest.raises(errors.UserError, match=r'bad\.zip'):
    load_caption_responses(tmp_path / 'bad.zip')
  with pytest.raises(errors.MissingDataError, match='contests/responses'):
    load_caption_responses(tmp_path / 'absent.csv.zip')


def test_algorithm_without_label_column(tmp_path):
  path = tmp_path / 'responses.csv'
  path.write_text('target,rating\na,1\n')
  with pytest.raises(errors.UserError, match='algorithm'):
    load_caption_responses(path, algorithm='a')
