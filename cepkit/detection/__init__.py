"""Detection rules on frames: queries of EQL and rules of Sigma."""
