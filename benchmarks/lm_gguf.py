"""GGUF files read by the package `gguf`: run by the peers' interpreter.

Reads jobs as JSON lines. `{kind: "parse", path, output}` reads the header and
decodes its text; where an output is given, all keys and the shapes of the
tensors are written to it as JSON. `{kind: "dequantize", digests}` decodes all
tensors of the file that was read last, and answers with their SHA-256 if asked.
"""

import functools
import hashlib
import importlib.metadata
import json
import pathlib
import sys

import gguf
import numpy as np

_TEXT = gguf.GGUFValueType.STRING


def parse(path, output):
  """Returns the reader, once its strings are decoded."""
  reader = gguf.GGUFReader(path)
  for field in reader.fields.values():
    if field.types[-1] == _TEXT:
      field.contents()
  if output:
    keys = {name: f.contents() for name, f in reader.fields.items()}
    shapes = {t.name: t.shape.tolist()[::-1] for t in reader.tensors}
    found = {'keys': keys, 'shapes': shapes}
    pathlib.Path(output).write_text(json.dumps(found))
  return reader


def dequantize(reader, digests):
  """Returns the SHA-256 of each tensor's float32 weights, or None."""
  arrays = {
    each.name: gguf.quants.dequantize(each.data, each.tensor_type)
    for each in reader.tensors
  }
  if not digests:
    return None
  return {name: _digest(array) for name, array in arrays.items()}


def _digest(array):
  stored = np.ascontiguousarray(array, np.float32)
  return hashlib.sha256(stored.data).hexdigest()


def main() -> None:
  """Answers jobs until standard input ends."""
  answers, sys.stdout = sys.stdout, sys.stderr
  say = functools.partial(print, file=answers, flush=True)
  say(json.dumps({'version': f'gguf {importlib.metadata.version("gguf")}'}))
  reader = None
  for line in sys.stdin:
    job = json.loads(line)
    if job['kind'] == 'parse':
      reader = parse(job['path'], job['output'])
      say(json.dumps(None))
    else:
      say(json.dumps(dequantize(reader, job['digests'])))


if __name__ == '__main__':
  main()
