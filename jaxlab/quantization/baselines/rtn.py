"""Round to nearest, on grids from the extremes or of least squared error."""

from jaxlab.quantization.fit import Rule
from jaxlab.quantization.methods import PTQMethod

RTN_MINMAX = PTQMethod('rtn_minmax', Rule(weights='minmax', acts='minmax'))
RTN_MSE = PTQMethod('rtn_mse', Rule())
