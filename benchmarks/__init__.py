"""Timings side by side with other implementations of the same work.

    python -m benchmarks                  all families
    python -m benchmarks.bandits --quick  one family, in about a minute

Each family prints a table and writes `benchmarks/results/<family>.json`.
"""
