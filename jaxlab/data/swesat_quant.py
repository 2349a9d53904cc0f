"""The Swedish scholastic aptitude test, its quantitative part; see `swesat`."""

from jaxlab.data import swesat

SOURCE = swesat.source('quant')
load, prepare, describe = SOURCE.load, SOURCE.prepare, SOURCE.describe
