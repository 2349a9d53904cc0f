"""Sections of cylinders."""

import numpy as np
import pytest

from jaxlab import errors
from jaxlab.dendrites import morphology
from jaxlab.dendrites.morphology import MorphologyError

BALL_AND_STICK = [
  ('soma', 20.0, 20.0, None),
  ('dend', 400.0, 2.0, ('soma', 1.0)),
  ('apic_tuft', 50.0, 1.0, ('dend', 0.25)),
  ('Axon2', 30.0, 0.5, ('soma', 0.0)),
  ('spine', 1.0, 0.1, ('apic_tuft', 1)),
]


def test_cylinders():
  morph = morphology.from_cylinders(BALL_AND_STICK)
  assert morph.report == ()
  rows = [(s.name, s.type, s.region, s.L, s.parent) for s in morph.sections]
  assert rows == [
    ('soma', 1, 'soma', 20, -1),
    ('dend', 3, 'basal', 400, 0),
    ('apic_tuft', 4, 'apical', 50, 1),
    ('Axon2', 2, 'axon', 30, 0),
    ('spine', 0, 'spine', 1, 2),
  ]
  assert [s.parent_x for s in morph.sections] == [0.5, 1, 0.25, 0, 1]
  assert [s.points[0, 0] for s in morph.sections] == [0, 20, 120, 0, 170]
  assert [s.points[1, 3] for s in morph.sections] == [10, 1, 0.5, 0.25, 0.05]
  assert morph.sections[0].points.dtype == np.float64


@pytest.mark.parametrize(
  ('cylinders', 'named'),
  [
    ([('a', 0.0, 1.0, None)], "'a': length 0.0"),
    ([('a', 1.0, np.nan, None)], "'a': diameter nan"),
    ([('a', np.inf, 1.0, None)], "'a': length inf"),
    ([('a', 1.0, 1.0, ('b', 1.0))], "parent 'b'.*none"),
    ([('a', 1.0, 1.0, None), ('b', 1.0, 1.0, ('b', 1.0))], r"'b'.*\(a\)"),
    ([('a', 1.0, 1.0, None), ('b', 1.0, 1.0, ('a', 1.1))], 'x=1.1'),
    ([('a', 1.0, 1.0, None), ('a', 1.0, 1.0, ('a', 1.0))], "'a' is named"),
    ([('a', 1.0, 1.0, None), ('b', 1.0, 1.0, None)], '2 sections are root'),
    ([], '0 sections are root'),
  ],
)
def test_faults_are_named(cylinders, named):
  with pytest.raises(MorphologyError, match=named) as caught:
    morphology.from_cylinders(cylinders)
  assert '\n' not in str(caught.value)
  assert isinstance(caught.value, errors.UserError)


def test_a_sphere_has_its_area():
  points = morphology.sphere(np.array([1.0, 2.0, 3.0]), 5.0)
  section = morphology.Section('soma', 1, points, -1, 0.5)
  assert section.L == 10
  assert (points[:, 3] == 5).all()
  assert points[:, :3].mean(axis=0).tolist() == [1, 2, 3]
