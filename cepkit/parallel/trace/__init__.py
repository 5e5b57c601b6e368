"""What every thread did, step by step."""
