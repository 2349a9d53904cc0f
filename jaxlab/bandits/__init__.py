"""Best-arm identification with a limited number of noisy evaluations."""
