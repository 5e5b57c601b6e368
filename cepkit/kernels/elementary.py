"""Functions that numpy rounds in its own way, computed as generated kernels compute them, for interpretation.

They are compiled once per installation, since no query changes their code.
"""

import numpy as np
from numba import types as T

from cepkit.kernels.jit import njit

NAN = np.nan
EXP, LOG, LOG2, LOG10, POWER = range(5)
_READ = T.Array(T.float64, 1, "C", readonly=True)
_WRITTEN = T.Array(T.float64, 1, "C")
_OPTIONS = {"nogil": True, "error_model": "numpy", "cache": True, "_nrt": False, "no_cfunc_wrapper": True}


@njit([(T.int64, _READ, _READ, _WRITTEN)], **_OPTIONS)
def compute(function, x, y, out):
    """Write a function of each x to ``out``; the power of each x and y.

    Parameters
    ----------
    function : int
        One of the constants of this module.
    x, y, out : ndarray of float64, shape (n,)

    Notes
    -----
    Time O(n). The code of each value is that of `cepkit.compile.shared.term_writing`, so the bits are equal.
    """
    for i in range(len(x)):
        if function == EXP:
            out[i] = np.exp(x[i])
        elif function == LOG:
            out[i] = np.log(x[i]) if x[i] > 0 else NAN
        elif function == LOG2:
            out[i] = np.log2(x[i]) if x[i] > 0 else NAN
        elif function == LOG10:
            out[i] = np.log10(x[i]) if x[i] > 0 else NAN
        else:
            out[i] = np.power(x[i], y[i]) if x[i] != 0 or y[i] >= 0 else NAN
