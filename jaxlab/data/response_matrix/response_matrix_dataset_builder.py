"""TensorFlow Datasets builder of logs of answers, without TensorFlow.

A configuration is a data set. One split, `train`, an example an examinee, with
the places of the items answered in the order of the log; the names of items and
concepts are metadata. Build with `file_format='array_record'`, read with
`as_data_source`.
"""

import importlib
import pathlib
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from jaxlab.data.response_matrix import triplets

_NAMES = ('assistments2009', 'bobcat', 'educat', 'eedi')


class Builder(tfds.core.GeneratorBasedBuilder):
  """Right and wrong answers of examinees to items."""

  VERSION = tfds.core.Version('1.0.0')
  BUILDER_CONFIGS: ClassVar = [
    tfds.core.BuilderConfig(name=name, description=name) for name in _NAMES
  ]
  MANUAL_DOWNLOAD_INSTRUCTIONS = 'The files that `jaxlab data describe` names.'

  def _info(self) -> tfds.core.DatasetInfo:
    source = self._source()
    return tfds.core.DatasetInfo(
      builder=self,
      description='Right and wrong answers of examinees to items.',
      license=source.licence,
      features=tfds.features.FeaturesDict(
        {
          'examinee': tfds.features.Text(),
          'items': tfds.features.Sequence(np.int32),
          'right': tfds.features.Sequence(np.int8),
        }
      ),
      supervised_keys=None,
      disable_shuffling=True,
      metadata=tfds.core.MetadataDict(),
    )

  def _split_generators(self, dl_manager: Any) -> dict[str, Iterator]:
    folder = pathlib.Path(dl_manager.manual_dir)
    found, _ = self._source().read(folder)
    about = self.info.metadata
    about['items'] = found.items.tolist()
    about['concepts'] = list(found.concepts)
    about['needs'] = [list(needs) for needs in found.needs]
    return {'train': self._generate_examples(found)}

  def _generate_examples(
    self, found: triplets.Triplets
  ) -> Iterator[tuple[int, dict[str, Any]]]:
    order = np.argsort(found.examinee, kind='stable')
    ends = np.cumsum(np.bincount(found.examinee))
    for row, chosen in enumerate(np.split(order, ends[:-1])):
      yield (
        row,
        {
          'examinee': str(found.examinees[row]),
          'items': found.item[chosen],
          'right': found.right[chosen],
        },
      )

  def _source(self) -> triplets.TripletSource:
    module = importlib.import_module(f'jaxlab.data.{self.builder_config.name}')
    return module.SOURCE
