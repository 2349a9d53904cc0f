"""The imperative shell: everything that touches files, time, processes."""
