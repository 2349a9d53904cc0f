"""Weights of SmolLM2-135M-Instruct; see `model_packages`."""

from jaxlab.data import model_packages

SOURCE = model_packages.ModelSource('smollm2-135m')
load, prepare, describe = SOURCE.load, SOURCE.prepare, SOURCE.describe
