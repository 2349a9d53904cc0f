"""TensorFlow Datasets builder of MATH; see `question_builder`."""

import tensorflow_datasets as tfds

from jaxlab.data import math, question_builder


class Builder(question_builder.QuestionBuilder):
  """The questions of MATH, one split a part of it."""

  SOURCE = math.SOURCE
  VERSION = tfds.core.Version('1.0.0')
  MANUAL_DOWNLOAD_INSTRUCTIONS = f'{SOURCE.wanted}, from {SOURCE.origin}'
