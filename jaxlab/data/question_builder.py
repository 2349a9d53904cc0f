"""TensorFlow Datasets builder of data sets of questions, without TensorFlow.

An example is a row of texts, in the order of the files. Build with
`file_format='array_record'`, read with `as_data_source`.
"""

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from jaxlab.data import questions


class QuestionBuilder(
  tfds.core.GeneratorBasedBuilder,
  skip_registration=True,  # type: ignore[call-arg]
):
  """Rows of text; a data set names its source."""

  SOURCE: ClassVar[questions.QuestionSource]

  def _info(self) -> tfds.core.DatasetInfo:
    texts = {name: tfds.features.Text() for name in self.SOURCE.columns}
    return tfds.core.DatasetInfo(
      builder=self,
      description=self.SOURCE.what,
      homepage=self.SOURCE.homepage,
      license=self.SOURCE.licence,
      features=tfds.features.FeaturesDict(texts),
      disable_shuffling=True,
      metadata=tfds.core.MetadataDict(),
    )

  def _split_generators(self, dl_manager: Any) -> dict[str, Iterator]:
    folder = pathlib.Path(dl_manager.manual_dir)
    return {
      split: self._generate_examples(folder, found)
      for split, found in self.SOURCE.find(folder).items()
    }

  def _generate_examples(
    self, folder: pathlib.Path, found: Sequence[pathlib.Path]
  ) -> Iterator[tuple[int, dict[str, str]]]:
    columns = self.SOURCE.read(folder, found)
    for row, values in enumerate(zip(*columns.values(), strict=True)):
      yield row, dict(zip(columns, values, strict=True))
