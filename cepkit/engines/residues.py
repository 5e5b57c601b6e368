"""Numbers of any size from their residues: moduli that are enough, and the Chinese remainder theorem."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

WORD = 1 << 64
# Enough for every odd number below 2^64 (Jaeschke; Sorenson and Webster).
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def moduli(bound: int, most_terms: int, *, largest: int = 1 << 62) -> list[int]:
    """Return moduli, 2^64 and primes, whose product exceeds ``bound``.

    Parameters
    ----------
    bound : int
        Not below any number that is to be found.
    most_terms : int
        That many residues of one modulus can be added up without passing 2^64.
    largest : int
        Limit on the primes.
    """
    found, product = [WORD], WORD
    primes = primes_below(min(largest, WORD // most_terms))
    while product <= bound:
        found.append(next(primes))
        product *= found[-1]
    return found


def primes_below(limit: int) -> Iterator[int]:
    """Yield the odd primes below ``limit`` (at most 2^64), descending."""
    for n in count(limit - 1 - limit % 2, -2):
        if n < 3:
            raise ValueError("there are not enough primes")
        if is_prime(n):
            yield n


def is_prime(n: int) -> bool:
    """Return whether an odd number from 3 to 2^64 is prime; by the test of Miller and Rabin."""
    if n in _WITNESSES:
        return True
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in _WITNESSES:
        x = pow(witness, odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def number_of(residues: list[np.ndarray], used: list[int]) -> np.ndarray | list[int]:
    """Return the numbers from 0 that have these residues: uint64 when all are below 2^63, else ints.

    Parameters
    ----------
    residues : list of ndarray of uint64, shape (n,)
        One array per modulus.
    used : list of int
        The moduli; 2^64 first.
    """
    numbers, product = residues[0].astype(object), used[0]
    for residue, modulus in zip(residues[1:], used[1:], strict=True):
        step = (residue.astype(object) - numbers) * pow(product, -1, modulus) % modulus
        numbers, product = numbers + product * step, product * modulus
    found = numbers.tolist()
    if max(found, default=0) < 1 << 63:
        return np.array(found, np.uint64)
    return found
