"""Research methods in JAX: pure functions, experiments, kernels."""
