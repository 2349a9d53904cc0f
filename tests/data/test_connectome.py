"""Connectomes: the five files, and every format of a small graph."""

import csv

import numpy as np
import pytest
from scipy import io

from jaxlab import data, errors
from jaxlab.data import connectome
from tests.golden import Golden

NAMES = ('a', 'b', 'c', 'd')
# W[j, i] acts from i to j.
WEIGHTS = np.array([[0, 0, 1.5, 0], [2, 0, 0, 0], [0, 3, 0, 0], [1, 0, 0, 0]])
ROWS = ['a,b,2', 'b,c,3', 'c,a,1.5', 'a,d,1']


def check(graph, names=NAMES):
  assert tuple(graph.names) == tuple(names)
  np.testing.assert_array_equal(connectome.weight_matrix(graph), WEIGHTS)
  np.testing.assert_array_equal(connectome.adjacency(graph), WEIGHTS.T > 0)


def write(folder, name, text):
  path = folder / name
  path.write_text(text)
  return path


def test_edge_list(tmp_path):
  text = '\n'.join(['pre,post,weight', *ROWS, 'd,c,0', ''])
  check(data.load('connectome', file=write(tmp_path, 'x.csv', text)))
  bare = '\n'.join(['post,pre', 'b,a', 'c,b', 'a,c', 'd,a'])
  graph = connectome.read_file(write(tmp_path, 'y.csv', bare))
  assert graph.names == NAMES
  assert graph.weight.tolist() == [1] * 4
  np.testing.assert_array_equal(connectome.adjacency(graph), WEIGHTS.T > 0)
  assert connectome.adjacency(graph, 6).shape == (6, 6)
  with pytest.raises(errors.UserError, match=r'num_nodes=3.*4 nodes'):
    connectome.adjacency(graph, 3)


@pytest.mark.parametrize('labels', ['both', 'columns', 'none'])
def test_matrix(tmp_path, labels):
  rows = [[f'{x:g}' for x in row] for row in WEIGHTS.T]
  if labels == 'both':
    rows = [['', *NAMES]] + [[n, *r] for n, r in zip(NAMES, rows, strict=True)]
  elif labels == 'columns':
    rows = [list(NAMES), *rows]
  text = '\n'.join(','.join(row) for row in rows)
  names = NAMES if labels != 'none' else ('0', '1', '2', '3')
  check(connectome.read_file(write(tmp_path, 'm.csv', text)), names)
  openpyxl = pytest.importorskip('openpyxl')
  book = openpyxl.Workbook()
  for row in rows:
    book.active.append(
      [float(x) if x[:1].isdigit() else x or None for x in row]
    )
  book.save(tmp_path / 'm.xlsx')
  check(connectome.read_file(tmp_path / 'm.xlsx'), names)


def test_graphml(tmp_path):
  nx = pytest.importorskip('networkx')
  graph = nx.from_numpy_array(WEIGHTS.T, create_using=nx.DiGraph)
  graph = nx.relabel_nodes(graph, dict(enumerate(NAMES)))
  nx.write_graphml(graph, tmp_path / 'g.graphml')
  check(connectome.read_file(tmp_path / 'g.graphml'))
  nx.write_graphml(nx.path_graph(3), tmp_path / 'u.graphml')
  A = connectome.adjacency(connectome.read_file(tmp_path / 'u.graphml'))
  assert A.astype(int).tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_matlab(tmp_path):
  cells = np.array([[np.array([name])] for name in NAMES], object)
  io.savemat(
    tmp_path / 'm.mat', {'CIJ': WEIGHTS.T, 'D': np.eye(4), 'Names': cells}
  )
  check(connectome.read_file(tmp_path / 'm.mat'))
  io.savemat(tmp_path / 'one.mat', {'W': WEIGHTS.T})
  check(connectome.read_file(tmp_path / 'one.mat'), ('0', '1', '2', '3'))
  io.savemat(tmp_path / 'two.mat', {'W': WEIGHTS.T, 'D': np.eye(4)})
  with pytest.raises(errors.UserError, match=r"two\.mat.*CIJ.*'D', 'W'"):
    connectome.read_file(tmp_path / 'two.mat')


@pytest.mark.parametrize(
  ('name', 'text', 'named'),
  [
    ('a.csv', 'pre,post,weight\na,b,x\n', r"line 2, column 'weight': 'x'"),
    ('a.csv', 'pre,post,weight\na,b\n', 'line 2: 2 fields, not 3'),
    ('a.csv', '1,2,3\n4,5,6\n', 'square'),
    ('a.csv', '1,x\n0,1\n', "'x' is no weight"),
    ('a.csv', '', 'empty'),
    ('a.graphml', '<graphml', 'no GraphML'),
    ('a.graphml', '<graphml/>', 'no element <graph>'),
    ('a.mat', 'not matlab', 'MATLAB'),
    ('a.xlsx', 'not excel', 'XLSX'),
    ('a.txt', '', r'none of \.csv'),
  ],
)
def test_damage_is_named(tmp_path, name, text, named):
  with pytest.raises(errors.UserError, match=named) as caught:
    connectome.read_file(write(tmp_path, name, text))
  assert '\n' not in str(caught.value)
  assert name in str(caught.value)


def test_missing_is_named(raw_root):
  with pytest.raises(errors.MissingDataError, match='witvliet8') as caught:
    data.load('connectome', 'witvliet8')
  assert 'data prepare connectome' in str(caught.value)
  with pytest.raises(errors.UserError, match=r"'mouse'.*white1986"):
    data.load('connectome', 'mouse')
  with pytest.raises(errors.UserError, match=r'nowhere\.csv'):
    data.load('connectome', file='nowhere.csv')
  with pytest.raises(errors.UserError, match='no splits'):
    data.load('connectome', 'witvliet8', file='x.csv')


def test_the_five_files(cache):
  folder = Golden('motif_rnn').data_folder('celegans*.csv', 'drosophila*.csv')
  assert str(cache) in data.prepare('connectome', str(folder))
  for split, name in connectome._FILES.items():
    graph = data.load('connectome', split)
    with (folder / name).open() as stream:
      rows = list(csv.DictReader(stream))
    named = np.array(graph.names)
    assert named[graph.pre].tolist() == [row['pre'] for row in rows]
    assert named[graph.post].tolist() == [row['post'] for row in rows]
    assert graph.weight.tolist() == [float(row['weight']) for row in rows]
  sizes = dict(data.describe('connectome'))
  assert sizes['larva_left'] == '209 nodes, 7,425 directed edges'
