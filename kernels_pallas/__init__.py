"""Hand-written kernels, one folder an operation; independent of `jaxlab`.

A method whose speed lives on a kernel brings it here, with a reference that is
obviously right, an XLA path and one file per backend.
"""
