"""NumPy arrays as tensors for Triton's own interpreter."""


class Buffer:
  """As much of a tensor as the interpreter asks for."""

  def __init__(self, array):
    self.array, self.dtype = array, array.dtype

  def data_ptr(self):
    return self.array.ctypes.data

  def untyped_storage(self):
    return self

  cpu = untyped_storage

  def new_empty(self, *_, **__):
    return self

  def set_(self, *_):
    pass

  def copy_(self, _):
    pass

  def storage_offset(self):
    return 0

  def size(self):
    return self.array.shape

  def stride(self):
    return self.array.strides
