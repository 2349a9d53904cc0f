"""The prepared copy of the data set `compas`; read it with `data.load`."""
