"""Networks that families share."""

from jaxlab.nets.chain import Block, Chain
from jaxlab.nets.conv_norm import fold_batch_norm
from jaxlab.nets.mamba import selective_scan, vision_mamba
from jaxlab.nets.mlp import MLP
from jaxlab.nets.mobile import Part, efficientnet_lite0, mobilenet
from jaxlab.nets.operand import Operand
from jaxlab.nets.resnet import resnet, resnet_cifar
from jaxlab.nets.vit import vit

__all__ = [
  'MLP',
  'Block',
  'Chain',
  'Operand',
  'Part',
  'efficientnet_lite0',
  'fold_batch_norm',
  'mobilenet',
  'resnet',
  'resnet_cifar',
  'selective_scan',
  'vision_mamba',
  'vit',
]
