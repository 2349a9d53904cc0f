"""Errors whose message is meant for the person at the command line."""


class UserError(ValueError):
  """A mistake that the user can cure; the message is one line and says how."""


class MissingDataError(UserError):
  """A data set is not on this machine; the message says how to get it."""
