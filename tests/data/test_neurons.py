"""Neurons: a worm of three made-up cells, and the published files."""

import csv
import re

import numpy as np
import pytest

from jaxlab import data, errors
from jaxlab.data import neurons
from jaxlab.dendrites import morphology, swc
from tests.golden import Golden

SWC = '# cell; Soma nseg=2; Axon nseg=7 parent=Soma(1)\n1 1 0 0 0 5 -1\n'
FILES = {
  'neurons.csv': 'Neuroname,type,param\nA1,motor,P\nB,sensory,Q\nC,motor,P\n',
  'cell_params.csv': (
    'neuron,soma.Ra,neurite.Ra\nM9,1,\nC,30,3\nA1,10,1\nB,20,\n'
  ),
  'connectome.csv': (
    'pre,post,kind,count\nB,A1,chemical,4\nA1,C,chemical,2\nA1,A1,chemical,1\n'
    'C,B,gapjunction,5\nB,C,gapjunction,5\nA1,A1,gapjunction,9\n'
    'A1,B,gapjunction,1\nB,A1,gapjunction,2\n'
  ),
}


@pytest.fixture
def folder(tmp_path):
  for name, text in FILES.items():
    (tmp_path / 'celegans_params').mkdir(exist_ok=True)
    (tmp_path / 'celegans_params' / name).write_text(text)
  (tmp_path / 'celegans_swc').mkdir()
  for name in ('A1', 'B', 'C'):
    (tmp_path / 'celegans_swc' / f'{name}.swc').write_text(SWC + f'# {name}\n')
  (tmp_path / 'swc').mkdir()
  for name in neurons.RECONSTRUCTIONS:
    (tmp_path / 'swc' / f'morph_{name}.swc').write_text(f'# {name}\n' + SWC)
  return tmp_path


def check(worm):
  assert worm.names == ('A1', 'B', 'C')
  assert worm.kinds == ('motor', 'sensory', 'motor')
  assert worm.templates == ('P', 'Q', 'P')
  assert worm.nseg == ((2, 7),) * 3
  assert [text[-2:] for text in worm.swc] == ['1\n', 'B\n', 'C\n']
  assert worm.params['soma.Ra'].tolist() == [10, 20, 30]
  np.testing.assert_array_equal(worm.params['neurite.Ra'], [1, np.nan, 3])
  chemical = np.stack([worm.pre, worm.post, worm.synapses], axis=1)
  assert chemical.tolist() == [[1, 0, 4], [0, 2, 2], [0, 0, 1]]
  assert worm.gap.tolist() == [[0, 1], [1, 2]]
  assert worm.junctions.tolist() == [2, 5]
  loops, uneven = worm.report
  assert loops.startswith('1 gap junctions of a neuron with itself')
  assert 'A1-B: 1 one way, 2 the other' in uneven


def test_worm(folder, raw_root):
  check(neurons.load_worm(folder))
  with pytest.raises(errors.MissingDataError, match='data prepare neurons'):
    data.load('neurons')
  assert f'{3 + 3 + 11} files' in data.prepare('neurons', str(folder))
  check(data.load('neurons'))
  assert data.load('neurons', 'B').swc == SWC + '# B\n'
  cell = data.load('neurons', 'ca1_n120')
  assert cell == ('ca1_n120', '# ca1_n120\n' + SWC)
  rows = dict(data.describe('neurons'))
  assert rows['worm'] == '3 neurons, 27 segments'
  assert rows['junctions'] == '2 pairs'
  assert dict(data.describe('neurons', 'C'))['C'] == '1 points'
  with pytest.raises(errors.UserError, match=r"'D'.*ca1_n120.*3 neurons"):
    data.load('neurons', 'D')


@pytest.mark.parametrize(
  ('name', 'old', 'new', 'named'),
  [
    ('connectome.csv', 'A1,C,chemical', 'A1,Z,chemical', "line 3.*'Z'"),
    ('connectome.csv', 'chemical,2', 'electric,2', "'electric'"),
    ('connectome.csv', 'chemical,2', 'chemical,2.5', "'2.5'"),
    ('cell_params.csv', 'C,30,3', 'X,30,3', "'C'"),
    ('cell_params.csv', 'C,30,3', 'C,thirty,3', "'thirty'"),
    ('neurons.csv', 'B,sensory,Q', 'B,sensory', 'line 3: 2 fields'),
  ],
)
def test_damage_is_named(folder, name, old, new, named):
  path = folder / 'celegans_params' / name
  path.write_text(FILES[name].replace(old, new))
  with pytest.raises(errors.UserError, match=named):
    neurons.load_worm(folder)


def test_a_missing_cell_is_named(folder):
  (folder / 'celegans_swc' / 'B.swc').unlink()
  with pytest.raises(errors.MissingDataError, match=r'B\.swc'):
    neurons.load_worm(folder)


def test_the_published_worm():
  folder = Golden('heliox').data_folder('celegans_swc', 'celegans_params')
  worm = neurons.load_worm(folder)
  assert len(worm.names) == 302
  assert sum(map(sum, worm.nseg)) == 15_910
  assert len(worm.pre) == 3709
  assert len(worm.gap) == 1091
  assert worm.report == ('14 gap junctions of a neuron with itself: left out.',)
  with (folder / 'celegans_params' / 'connectome.csv').open() as stream:
    rows = [r for r in csv.DictReader(stream) if r['kind'] == 'chemical']
  named = np.array(worm.names)
  assert named[worm.pre].tolist() == [row['pre'] for row in rows]
  assert named[worm.post].tolist() == [row['post'] for row in rows]
  with (folder / 'celegans_params' / 'cell_params.csv').open() as stream:
    ava = {r['neuron']: r for r in csv.DictReader(stream)}['AVAL']
  index = worm.names.index('AVAL')
  found = {name: float(values[index]) for name, values in worm.params.items()}
  assert found == {k: float(v) for k, v in ava.items() if k != 'neuron'}
  for text, nseg in zip(worm.swc, worm.nseg, strict=True):
    check_sections(text.splitlines()[0], nseg, swc.parse_swc(text))


def check_sections(header, nseg, morph):
  """A file's sections, depth first, are the tree that its first line lists."""
  listed = re.findall(r'(\w+) nseg=(\d+)(?: parent=(\w+)\(1\))?', header)
  order = morphology.depth_first(morph)
  assert len(order) == len(nseg) == len(listed)
  counts = dict(zip(order, nseg, strict=True))
  found = sorted(
    (counts[i], counts.get(section.parent, 0), section.parent_x)
    for i, section in enumerate(morph.sections)
  )
  count_of = {'': 0} | {name: int(count) for name, count, _ in listed}
  assert found == sorted(
    (int(count), count_of[parent], 1 if parent else 0.5)
    for _, count, parent in listed
  )
