"""Post-training quantization to 2 and 3 bits: SHARP-Q and its rivals."""
