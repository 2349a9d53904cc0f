"""The Swedish scholastic aptitude test, its verbal part; see `swesat`."""

from jaxlab.data import swesat

SOURCE = swesat.source('verbal')
load, prepare, describe = SOURCE.load, SOURCE.prepare, SOURCE.describe
