"""Tests; a package, since dependencies install one of the same name."""
