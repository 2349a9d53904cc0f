"""Figures show the numbers that they are given."""

import matplotlib.figure
import numpy as np

from jaxlab.quantization import plots


def _drawn(fig, tmp_path):
  assert isinstance(fig, matplotlib.figure.Figure)
  fig.savefig(tmp_path / 'figure.png', dpi=50)
  return fig.axes


def test_block_errors_draw_networks_of_different_length(tmp_path):
  fig = plots.block_errors({'a': [0.1, 0.2, 0.4], 'b': [0.3]})
  (axis,) = _drawn(fig, tmp_path)
  first, second = (line.get_ydata() for line in axis.lines)
  np.testing.assert_array_equal(first, [0.1, 0.2, 0.4])
  np.testing.assert_array_equal(second, [0.3, np.nan, np.nan])
  assert axis.get_yscale() == 'log'


def test_candidates_are_relative_to_the_identity(tmp_path):
  fig = plots.candidate_losses(
    {
      'one': {'identity': 0.2, 'D(0.5)': 2.0, 'shift': 0.02},
      'two': {'identity': 1.0, 'Hadamard': None},
    }
  )
  axis = _drawn(fig, tmp_path)[0]
  names = [label.get_text() for label in axis.get_xticklabels()]
  assert names == ['identity', 'D(0.5)', 'shift', 'Hadamard']
  shown = np.ma.filled(axis.images[0].get_array(), np.nan)
  np.testing.assert_allclose(shown[0, :3], [0, 1, -1], atol=1e-12)
  np.testing.assert_array_equal(np.isnan(shown[1]), [0, 1, 1, 1])


def test_fidelity_has_a_panel_for_each_form(tmp_path):
  rng = np.random.default_rng(0)
  true = rng.uniform(0.1, 1, 20)
  predicted = {f'form {i}': true * (i + 1) for i in range(5)}
  rank = dict.fromkeys(predicted, 1.0)
  fig = plots.fidelity_scatter(true, predicted, rank, title='net')
  panels = [axis for axis in _drawn(fig, tmp_path) if axis.get_visible()]
  titles = [axis.get_title(loc='left') for axis in panels]
  assert titles == [f'form {i}: 1.00' for i in range(5)]
  offsets = np.asarray(panels[2].collections[0].get_offsets())
  np.testing.assert_allclose(offsets, np.stack([true, 3 * true], axis=1))


def test_spectra_end_at_the_whole_trace(tmp_path):
  pair = np.array([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2]])
  fig = plots.spectra({'0/conv': (pair[0], pair[1])})
  (axis,) = _drawn(fig, tmp_path)
  for line, values in zip(axis.lines, pair, strict=True):
    np.testing.assert_allclose(line.get_ydata(), np.cumsum(values))
