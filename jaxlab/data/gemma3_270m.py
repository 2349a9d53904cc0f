"""Weights of Gemma 3 270M; see `model_packages`."""

from jaxlab.data import model_packages

SOURCE = model_packages.ModelSource('gemma3-270m')
load, prepare, describe = SOURCE.load, SOURCE.prepare, SOURCE.describe
