"""What numba lacks for kernels without the GIL: atomic operations, the machine's clock, calls by address."""

# Arrays of shared numbers are int64 and contiguous; a number is addressed by its index in the flat array.

import sys
import threading
import time

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

_I64 = ir.IntType(64)
_CLOCK_MONOTONIC = 6 if sys.platform == "darwin" else 1


def _pointer(context, builder, signature, arguments):
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


def _load(typing, array, i):
    def code(context, builder, signature, arguments):
        return builder.load_atomic(_pointer(context, builder, signature, arguments), "seq_cst", 8)

    return types.int64(array, types.int64), code


def _store(typing, array, i, value):
    def code(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], pointer, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), code


def _put(typing, array, i, value):
    def code(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], pointer, "monotonic", 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), code


def _add(typing, array, i, value):
    def code(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature, arguments)
        return builder.atomic_rmw("add", pointer, arguments[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), code


def _swap(typing, array, i, old, new):
    def code(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature, arguments)
        done = builder.cmpxchg(pointer, arguments[2], arguments[3], "seq_cst", "seq_cst")
        return builder.extract_value(done, 1)

    return types.boolean(array, types.int64, types.int64, types.int64), code


def _nanoseconds(typing):
    def code(context, builder, signature, arguments):
        moment = cgutils.alloca_once(builder, ir.ArrayType(_I64, 2))
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32), moment.type])
        function = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
        builder.call(function, [ir.Constant(ir.IntType(32), _CLOCK_MONOTONIC), moment])
        seconds, rest = (builder.load(cgutils.gep_inbounds(builder, moment, 0, k)) for k in (0, 1))
        return builder.add(builder.mul(seconds, ir.Constant(_I64, 1_000_000_000)), rest)

    return types.int64(), code


if config.DISABLE_JIT:
    _LOCK = threading.Lock()

    def load(array, i):
        """Return the number (sequentially consistent, like all operations here except `put`)."""
        return int(array.reshape(-1)[i])

    def store(array, i, value):
        """Write the number; a thread that reads it also sees everything written before."""
        array.reshape(-1)[i] = value

    def put(array, i, value):
        """Write the number without ordering other writes (a relaxed atomic store)."""
        array.reshape(-1)[i] = value

    def add(array, i, value):
        """Add to the number; return its previous value."""
        with _LOCK:
            old = int(array.reshape(-1)[i])
            array.reshape(-1)[i] = old + value
        return old

    def swap(array, i, old, new):
        """Write ``new`` if the number is ``old``; return whether it was ``old``."""
        with _LOCK:
            is_old = int(array.reshape(-1)[i]) == old
            if is_old:
                array.reshape(-1)[i] = new
        return is_old

    nanoseconds = time.monotonic_ns
else:
    load, store, put, add, swap = map(intrinsic, (_load, _store, _put, _add, _swap))
    nanoseconds = intrinsic(_nanoseconds)


# Calls of functions by their addresses, so that kernels of any query call the functions of one query.


def function_at(result, *arguments):
    """Return ``call(address, values)`` for kernels: it calls the compiled function of these types there."""
    if config.DISABLE_JIT:  # the address is the function itself
        return lambda function, values: function(*values)

    @intrinsic
    def call(typing, address, values):
        def code(context, builder, signature, given):
            parts = zip(cgutils.unpack_tuple(builder, given[1]), signature.args[1], arguments, strict=True)
            values = [context.cast(builder, value, of, to) for value, of, to in parts]
            kind = context.call_conv.get_function_type(result, arguments)
            pointer = builder.inttoptr(given[0], kind.as_pointer())
            status, made = context.call_conv.call_function(builder, pointer, result, arguments, values)
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
            return made

        return result(types.int64, values), code

    return call
