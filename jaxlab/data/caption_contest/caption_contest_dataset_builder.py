"""TensorFlow Datasets builder of the caption contest, without TensorFlow.

A split is a summary file, an example a caption with its votes, in file order.
Build with `file_format='array_record'`, read with `as_data_source`.
"""

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from jaxlab.data.caption_contest import summaries


class Builder(tfds.core.GeneratorBasedBuilder):
  """Votes on captions, one split a summary file."""

  VERSION = tfds.core.Version('1.0.0')
  MANUAL_DOWNLOAD_INSTRUCTIONS = (
    'Files CONTEST_summary_ALGORITHM.csv of the GitHub repository '
    + summaries.SOURCE
  )

  def _info(self) -> tfds.core.DatasetInfo:
    return tfds.core.DatasetInfo(
      builder=self,
      description='New Yorker Cartoon Caption Contest: votes by caption.',
      homepage='https://nextml.github.io/caption-contest-data',
      license='CC BY 4.0',
      features=tfds.features.FeaturesDict(
        {
          'caption': tfds.features.Text(),
          'votes': tfds.features.Tensor(shape=(3,), dtype=np.int64),
        }
      ),
      disable_shuffling=True,
      metadata=tfds.core.MetadataDict(),
    )

  def _split_generators(self, dl_manager: Any) -> dict[str, Iterator]:
    folder = pathlib.Path(dl_manager.manual_dir)
    return {
      contest.split: self._generate_examples(folder, contest)
      for contest in summaries.contests(folder)
    }

  def _generate_examples(
    self, folder: pathlib.Path, contest: summaries.Contest
  ) -> Iterator[tuple[int, dict[str, Any]]]:
    table = summaries.read_summary(folder, contest)
    rows = zip(table.captions, table.votes, strict=True)
    for row, (caption, votes) in enumerate(rows):
      yield row, {'caption': caption, 'votes': votes}
