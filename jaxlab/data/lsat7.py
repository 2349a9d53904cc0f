"""Section 7 of the LSAT: five items, 1,000 test takers; see `lsat`."""

from jaxlab.data import lsat

SOURCE = lsat.source(7)
load, prepare, describe = SOURCE.load, SOURCE.prepare, SOURCE.describe
