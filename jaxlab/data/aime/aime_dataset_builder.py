"""TensorFlow Datasets builder of AIME; see `question_builder`."""

import tensorflow_datasets as tfds

from jaxlab.data import aime, question_builder


class Builder(question_builder.QuestionBuilder):
  """The questions of AIME, one split a part of it."""

  SOURCE = aime.SOURCE
  VERSION = tfds.core.Version('1.0.0')
  MANUAL_DOWNLOAD_INSTRUCTIONS = f'{SOURCE.wanted}, from {SOURCE.origin}'
