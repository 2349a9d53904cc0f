"""Networks that families share."""

from jaxlab.nets.mlp import MLP

__all__ = ['MLP']
