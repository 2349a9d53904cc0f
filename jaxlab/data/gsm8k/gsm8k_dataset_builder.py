"""TensorFlow Datasets builder of GSM8K; see `question_builder`."""

import tensorflow_datasets as tfds

from jaxlab.data import gsm8k, question_builder


class Builder(question_builder.QuestionBuilder):
  """The questions of GSM8K, one split a part of it."""

  SOURCE = gsm8k.SOURCE
  VERSION = tfds.core.Version('1.0.0')
  MANUAL_DOWNLOAD_INSTRUCTIONS = f'{SOURCE.wanted}, from {SOURCE.origin}'
