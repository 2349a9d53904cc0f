import ast

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from colabs import __main__ as colabs

NAMES = colabs.names()


def read(name):
  return nbformat.read(colabs.FOLDER / f'{name}.ipynb', as_version=4)


def code_of(name):
  return [c.source for c in read(name).cells if c.cell_type == 'code']


def save(folder, *sources):
  cells = [nbformat.v4.new_code_cell(source) for source in sources]
  path = folder / 'small.ipynb'
  nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
  return path


def test_there_is_a_tour():
  assert {'bandits', 'tour'} <= set(NAMES)


@pytest.mark.parametrize('name', NAMES)
def test_valid_and_stored_without_outputs(name):
  notebook = read(name)
  nbformat.validate(notebook)
  assert notebook.cells[0].source.startswith('# ')
  for cell in notebook.cells:
    if cell.cell_type == 'code':
      assert cell.outputs == []
      assert cell.execution_count is None


@pytest.mark.parametrize('name', NAMES)
def test_every_code_cell_parses(name):
  for source in code_of(name):
    ast.parse(TransformerManager().transform_cell(source))


@pytest.mark.parametrize('name', NAMES)
def test_one_cell_installs_and_only_where_it_must(name):
  installing = [s for s in code_of(name) if 'pip' in s]
  assert installing == code_of(name)[:1]
  assert "find_spec('jaxlab') is None" in installing[0]


def test_a_notebook_runs_and_its_file_stays_as_it_is(
  tmp_path, monkeypatch, capsys
):
  path = save(tmp_path, '2 + 3', "open('left.txt', 'w').close()")
  before = path.read_bytes()
  monkeypatch.setattr(colabs, 'FOLDER', tmp_path)
  assert colabs.main(['small']) == 0
  assert capsys.readouterr().out.startswith('small: ')
  assert path.read_bytes() == before
  assert list(tmp_path.iterdir()) == [path]
  assert colabs.main(['small', '--write']) == 0
  (output,) = nbformat.read(path, as_version=4).cells[0].outputs
  assert output.data['text/plain'] == '5'


def test_a_failing_notebook_is_an_error(tmp_path, monkeypatch, capsys):
  save(tmp_path, "raise KeyError('broken cell')")
  monkeypatch.setattr(colabs, 'FOLDER', tmp_path)
  assert colabs.main([]) == 1
  assert 'broken cell' in capsys.readouterr().err


def test_an_unknown_name_is_an_error(capsys):
  with pytest.raises(SystemExit) as stop:
    colabs.main(['nothing'])
  assert stop.value.code == 2
  assert "unknown notebook 'nothing'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize('name', NAMES)
def test_notebooks_run(name):
  assert colabs.main([name]) == 0
