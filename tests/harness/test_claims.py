import dataclasses
import json
import math

import pytest

from jaxlab.harness.claims import Claim


def _claim(low, high, threshold=0.0, sense='>', text='gap', measured=None):
  if measured is None:
    measured = (low + high) / 2
  return Claim(
    text, 'Author 2026, Tab. 1', measured, low, high, threshold, sense
  )


@pytest.mark.parametrize(
  ('low', 'high', 'sense', 'verdict'),
  [
    (0.1, 0.3, '>', 'holds'),
    (-0.1, 0.3, '>', 'undecided'),
    (-0.3, -0.1, '>', 'fails'),
    (0.0, 0.3, '>', 'undecided'),
    (0.0, 0.0, '>', 'fails'),
    (-0.3, -0.1, '<', 'holds'),
    (-0.3, 0.1, '<', 'undecided'),
    (0.1, 0.3, '<', 'fails'),
    (-0.3, 0.0, '<', 'undecided'),
    (0.1, math.inf, '>', 'holds'),
    (-math.inf, 0.1, '>', 'undecided'),
  ],
)
def test_verdict_is_read_off_the_interval(low, high, sense, verdict):
  claim = _claim(low, high, sense=sense, measured=0.0)
  assert claim.verdict == verdict
  assert claim.holds == (verdict == 'holds')


@pytest.mark.parametrize('field', ['measured', 'low', 'high', 'threshold'])
def test_nan_never_holds(field):
  claim = dataclasses.replace(_claim(1.0, 2.0), **{field: math.nan})
  assert claim.verdict == 'undecided'
  assert not claim.holds
  assert json.loads(json.dumps(claim.to_json(), allow_nan=False))[field] is None


def test_verdict_cannot_be_set():
  claim = _claim(-1.0, 1.0)
  with pytest.raises(AttributeError):
    claim.holds = True
  with pytest.raises(TypeError):
    Claim('t', 'p', 0.0, 0.0, 0.0, 0.0, '>', holds=True)


@pytest.mark.parametrize(
  ('low', 'high', 'sense', 'match'),
  [(1.0, 0.0, '>', 'low must not exceed'), (0.0, 1.0, '>=', 'sense')],
)
def test_malformed_claims(low, high, sense, match):
  with pytest.raises(ValueError, match=match):
    _claim(low, high, sense=sense)


def test_all_of_takes_the_closest_part_relative_to_its_threshold():
  # Margins 0.5/10 and 0.2/1: the first is the closer one.
  parts = [
    _claim(10.5, 12.0, threshold=10.0, text='large'),
    _claim(1.2, 1.4, threshold=1.0, text='small'),
  ]
  joint = Claim.all_of('both', 'Author 2026', parts)
  assert joint.holds
  assert (joint.low, joint.high, joint.threshold) == (10.5, 12.0, 10.0)
  assert joint.note == '2 of 2 hold; closest: large'


def test_all_of_fails_if_one_fails_although_another_reaches_lower():
  parts = [
    _claim(0.1, 0.2, text='good'),
    _claim(-9.0, 9.0, text='wide'),
    _claim(-0.2, -0.1, text='bad'),
    _claim(math.nan, math.nan, text='lost'),
  ]
  joint = Claim.all_of('all', 'Author 2026', parts, note='4 cells.')
  assert joint.verdict == 'fails'
  assert joint.note == '4 cells. 1 of 4 hold; worst: bad'
  assert Claim.all_of('x', 'y', parts[:2]).verdict == 'undecided'
  assert Claim.all_of('x', 'y', [parts[0], parts[3]]).verdict == 'undecided'
  assert Claim.all_of('x', 'y', parts[:1]).verdict == 'holds'


def test_all_of_mixes_senses():
  parts = [_claim(0.4, 0.5), _claim(-0.3, -0.1, sense='<', text='below')]
  joint = Claim.all_of('both', 'Author 2026', parts)
  assert joint.holds
  assert (joint.sense, joint.high) == ('<', -0.1)


def test_all_of_nothing():
  with pytest.raises(ValueError, match='at least one part'):
    Claim.all_of('none', 'Author 2026', [])


def test_json_has_what_a_reader_needs():
  record = _claim(0.1, 0.3).to_json()
  assert record == {
    'text': 'gap',
    'paper': 'Author 2026, Tab. 1',
    'measured': 0.2,
    'low': 0.1,
    'high': 0.3,
    'threshold': 0.0,
    'sense': '>',
    'unit': '',
    'note': '',
    'holds': True,
    'verdict': 'holds',
  }
