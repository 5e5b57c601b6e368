"""Numbers of any size from their residues, by the Chinese remainder theorem."""

from __future__ import annotations

from math import gcd

import numpy as np

WORD = 1 << 64


def moduli(bound: int, most_terms: int, *, largest: int = 1 << 62) -> list[int]:
    """Return 2^64 and odd moduli without common factors, with a product greater than ``bound``."""
    used, product = [WORD], WORD
    limit = min(largest, WORD // most_terms)
    candidates = range(limit - 1 - limit % 2, 1, -2)
    for modulus in candidates:
        if product > bound:
            break
        if gcd(modulus, product) == 1:
            used.append(modulus)
            product *= modulus
    if product <= bound:
        raise ValueError("there are not enough moduli")
    return used


def number_of(residues: list[np.ndarray], used: list[int]) -> np.ndarray | list[int]:
    """Return the least numbers with these residues: uint64 if all are below 2^63, otherwise a list of int."""
    numbers, product = residues[0].astype(object), used[0]
    for residue, modulus in zip(residues[1:], used[1:], strict=True):
        step = (residue.astype(object) - numbers) * pow(product, -1, modulus) % modulus
        numbers, product = numbers + product * step, product * modulus
    found = numbers.tolist()
    if max(found, default=0) < 1 << 63:
        return np.array(found, np.uint64)
    return found
