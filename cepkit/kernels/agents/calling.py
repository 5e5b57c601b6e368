"""Calls of functions by their addresses, so that kernels of any query call the functions of one query."""

from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic


def function_at(result, *arguments):
    """Return ``call(address, values)`` for kernels: it calls the compiled function of these types there.

    Without the JIT, the address is the function itself.
    """
    if config.DISABLE_JIT:
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
