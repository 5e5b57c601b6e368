"""The instructions of interpreted conditions. An instruction is a row: operation, target, left, right.

Left and right are numbers of registers. A register holds a float or an integer; a truth value is the integer
0 or 1. The target is a register, except in ``REQUIRE``: there it is the mask of the positions that need it.
"""

# 0 to 5: the comparisons ==, !=, <, <=, >, >= of floats; 6 to 11: those of integers. Null is NaN in
# floats, so each of these is false.
COMPARE_FLOATS, COMPARE_INTEGERS = 0, 6
AND, OR, REQUIRE = 12, 13, 14
ADD_FLOATS, SUBTRACT_FLOATS, MULTIPLY_FLOATS, DIVIDE_FLOATS = 15, 16, 17, 18
ADD_INTEGERS, SUBTRACT_INTEGERS, MULTIPLY_INTEGERS = 19, 20, 21
NEGATE_FLOAT, NEGATE_INTEGER, ABS_FLOAT, ABS_INTEGER = 22, 23, 24, 25
TO_FLOAT = 26  # an integer as a float
FLOAT_OR_NAN = 27  # the left float if the truth on the right is 1, else NaN
INTEGER_OR_NULL = 28  # the left integer if the truth on the right is 1, else null

SUBTRACT_TIMES, ADD_TIMES = 29, 30  # a result that does not fit is the nearest integer that does, but null

SIGNS = ("==", "!=", "<", "<=", ">", ">=")
CODES = {
    **{f"{sign} floats": COMPARE_FLOATS + i for i, sign in enumerate(SIGNS)},
    **{f"{sign} integers": COMPARE_INTEGERS + i for i, sign in enumerate(SIGNS)},
    "and": AND, "or": OR,
    "+ floats": ADD_FLOATS, "- floats": SUBTRACT_FLOATS,
    "* floats": MULTIPLY_FLOATS, "/ floats": DIVIDE_FLOATS,
    "+ integers": ADD_INTEGERS, "- integers": SUBTRACT_INTEGERS, "* integers": MULTIPLY_INTEGERS,
    "- times": SUBTRACT_TIMES, "+ times": ADD_TIMES,
    "negative floats": NEGATE_FLOAT, "negative integers": NEGATE_INTEGER,
    "abs floats": ABS_FLOAT, "abs integers": ABS_INTEGER,
    "to float": TO_FLOAT, "float or nan": FLOAT_OR_NAN, "integer or null": INTEGER_OR_NULL,
}  # fmt: skip
OF_FLOATS = frozenset(
    {
        ADD_FLOATS,
        SUBTRACT_FLOATS,
        MULTIPLY_FLOATS,
        DIVIDE_FLOATS,
        NEGATE_FLOAT,
        ABS_FLOAT,
        TO_FLOAT,
        FLOAT_OR_NAN,
    }
)  # operations with a float as their result

# What a partial match does with a value that it carries.
KEEP, COUNT, SUM, MAX, MIN = range(5)
# Columns of the table of carried values: what happens, whether it is a float, its register, the register of
# the event's value, the register of whether that is known (-1: always), whether the carried value can be
# null, and whether it is a code, which is null below zero.
ACTION, IS_FLOAT, CARRIED, GIVEN, KNOWN, IS_NULLABLE, IS_CODE = range(7)

# Conditions on a path, the events of a partial match: where an event is. A depth is an offset from a base.
# Bases from 0 on are components: the depth at which they begin.
AT_LAST, AT_OTHER, AT_LOOP, AT_INNER_LOOP, AT_TIME_LIMIT, NOWHERE = -1, -2, -3, -4, -5, -6
# Values over the events of a loop.
NUMBER, NUMBER_KNOWN, TOTAL, LOWEST, HIGHEST, FIRST, LAST = range(7)
