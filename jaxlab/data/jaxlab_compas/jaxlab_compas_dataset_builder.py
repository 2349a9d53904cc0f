"""TensorFlow Datasets builder of COMPAS, without TensorFlow.

One split, `train`, an example a row of the file with the columns that are read,
in file order. Build with `file_format='array_record'`, read with
`as_data_source`.
"""

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from jaxlab.data import compas, files


class Builder(tfds.core.GeneratorBasedBuilder):
  """Risk scores of defendants with two years of recidivism."""

  VERSION = tfds.core.Version('1.0.0')
  MANUAL_DOWNLOAD_INSTRUCTIONS = (
    f'The file {compas.RAW.patterns[0][0]} of {compas.RAW.origin}'
  )

  def _info(self) -> tfds.core.DatasetInfo:
    whole = dict.fromkeys(compas.WHOLE, np.int32)
    return tfds.core.DatasetInfo(
      builder=self,
      description='COMPAS scores in Broward County with two-year recidivism.',
      homepage='https://github.com/propublica/compas-analysis',
      license='none stated; public records',
      features=tfds.features.FeaturesDict(
        {
          **{name: tfds.features.Text() for name in compas.TEXTS},
          **whole,
          compas.DAYS: np.float64,
        }
      ),
      supervised_keys=None,
      disable_shuffling=True,
      metadata=tfds.core.MetadataDict(),
    )

  def _split_generators(self, dl_manager: Any) -> dict[str, Iterator]:
    folder = pathlib.Path(dl_manager.manual_dir)
    return {'train': self._generate_examples(folder)}

  def _generate_examples(
    self, folder: pathlib.Path
  ) -> Iterator[tuple[int, dict[str, Any]]]:
    columns = compas.read_columns(files.find(compas.RAW, folder)[0])
    for row in range(len(columns[compas.LABEL])):
      yield row, {name: values[row] for name, values in columns.items()}
