"""TensorFlow Datasets builder of GPQA; see `question_builder`."""

import tensorflow_datasets as tfds

from jaxlab.data import gpqa, question_builder


class Builder(question_builder.QuestionBuilder):
  """The questions of GPQA, one split a part of it."""

  SOURCE = gpqa.SOURCE
  VERSION = tfds.core.Version('1.0.0')
  MANUAL_DOWNLOAD_INSTRUCTIONS = f'{SOURCE.wanted}, from {SOURCE.origin}'
