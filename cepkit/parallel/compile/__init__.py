"""cepkit.parallel.compile"""
