"""Where the weights of public models are; `jaxlab.pretrained` has the facts."""

from jaxlab.pretrained import PACKAGES, ModelPackage, find, require

__all__ = ['PACKAGES', 'ModelPackage', 'find', 'require']
