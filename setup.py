"""Adds the experiment configs to the wheel as `jaxlab.configs`.

Everything else about the package is in setup.cfg; the list of packages is
computed because `configs/` lies beside `jaxlab/` in the checkout and inside it
once installed.
"""

import setuptools

_configs = ['configs'] + [
  f'configs.{name}' for name in setuptools.find_namespace_packages('configs')
]

setuptools.setup(
  packages=setuptools.find_packages(include=['jaxlab*', 'kernels_pallas*'])
  + [f'jaxlab.{name}' for name in _configs],
  package_dir={f'jaxlab.{name}': name.replace('.', '/') for name in _configs},
)
