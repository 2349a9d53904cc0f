"""PTQ4VM (arXiv:2412.20386): fixed steps by position, smoothed channels.

Steps are learned with the rounding, as in QDrop; the scales of channels are
SmoothQuant's and not learned.
"""

from jaxlab.quantization.methods import PTQMethod

PTQ4VM = PTQMethod(
  'ptq4vm', transform='smooth', token_scale='static', learn='block'
)
