"""Sets of tags as numbers: a code per set to test equality, a bit mask to test disjointness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cepkit.errors import CepError, column_not_found
from cepkit.pipelines import spark_functions as F
from cepkit.pipelines.stages import quoted, unused

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LARGEST_MASK = 63  # bits 0 to 62 of a bigint, so that masks are not negative
OTHERS = ("error", "null", "ignore")

# By Twitter's rules a tag is not a number alone, does not follow a letter or an ampersand (&#39; is an
# apostrophe), and does not continue with a further # or an address.
_HASHTAG = r"(?U)(?<![\w&])#(\w*[^\W\d]\w*+)(?!#|://)"


class TagError(CepError, ValueError):
    """A bit mask cannot represent these tags."""


def hashtags(text: Column) -> Column:
    """Return the set of hashtags in a text, in lower case, sorted, without ``#``."""
    found = F.regexp_extract_all(text, F.lit(_HASHTAG))
    return F.array_sort(F.array_distinct(F.transform(found, lambda tag: F.lower(tag))))


def tag_code(frame: DataFrame, *, tags: str = "tags", name: str = "tag_code") -> DataFrame:
    """Return the frame with a number per set of tags; equal numbers mean equal sets.

    Sets are numbered from 1 in the order of their sorted tags. The empty set is 0, NULL stays NULL. The
    numbers depend only on the sets in the frame; in another frame they mean other sets.

    A hash of the set would need no second pass over the frame, but two sets can share one.
    """
    from pyspark.sql.window import Window

    _check_tags(frame, tags)
    key = unused(frame, "tag_set")
    keyed = frame.withColumn(key, _normalize(F.col(quoted(tags))))
    in_order = Window.orderBy(key).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    sets = keyed.select(key).where(F.col(key).isNotNull()).distinct()
    codes = sets.select(key, F.sum((F.size(key) > 0).cast("long")).over(in_order).alias(name))
    return keyed.drop(name).join(codes, key, "left").select(*_without(frame, name), name)


def tag_mask(
    frame: DataFrame, *, tags: str = "tags", listed: Sequence[str] | None = None, others: str = "error",
    name: str = "tag_mask",
) -> DataFrame:  # fmt: skip
    """Return the frame with each set of tags as a bit mask; ``a & b == 0`` means that two sets are disjoint.

    Bit ``i`` stands for ``listed[i]``. A mask has at most 63 tags. ``others`` chooses the result for sets
    with more tags: when the mask leaves them out, two sets that share only such a tag look disjoint.
    """
    _check_tags(frame, tags)
    other_tags(others)
    listed = frequent_tags(frame, tags=tags) if listed is None else listed_tags(listed)
    values = F.col(quoted(tags))
    if others == "error":
        n_rows = frame.where(~only_listed(values, listed)).count()
        if n_rows:
            raise TagError(
                f"tag_mask: {n_rows} rows have tags beyond the {len(listed)} in the mask. List other tags "
                f"(at most {LARGEST_MASK}), or choose others='null' (no mask for these rows) or 'ignore' "
                "(those tags are left out)"
            )
    mask = _mask(values, listed)
    if others == "null":
        mask = F.when(only_listed(values, listed), mask)
    return frame.withColumn(name, mask)


def frequent_tags(frame: DataFrame, *, tags: str = "tags", n: int = LARGEST_MASK) -> list[str]:
    """Return the ``n`` most frequent tags of the frame; equally frequent ones are in alphabetical order."""
    _check_tags(frame, tags)
    counts = frame.select(F.explode(F.array_distinct(quoted(tags))).alias("tag")).groupBy("tag").count()
    return [row.tag for row in counts.orderBy(F.desc("count"), "tag").limit(n).collect()]


def listed_tags(tags: Sequence[str]) -> list[str]:
    """Return the tags of a mask as a list; raise `TagError` for more than 63 tags or a repeated one."""
    listed = list(tags)
    if len(listed) > LARGEST_MASK:
        raise TagError(f"{len(listed)} tags are listed for a mask; it has room for {LARGEST_MASK}")
    if len(set(listed)) < len(listed):
        raise TagError(f"tag {next(t for t in listed if listed.count(t) > 1)!r} is listed twice for a mask")
    return listed


def other_tags(others: str) -> str:
    """Return ``others``; raise `TagError` when it is not one of `OTHERS`."""
    if others not in OTHERS:
        raise TagError(f"others={others!r} is not one of {', '.join(map(repr, OTHERS))}")
    return others


def only_listed(values: Column, listed: Sequence[str]) -> Column:
    """Return whether each set has only listed tags."""
    return F.forall(values, lambda tag: F.array_contains(_texts(listed), tag))


def _mask(values: Column, listed: Sequence[str]) -> Column:
    bits = F.transform(F.array_distinct(values), lambda tag: F.array_position(_texts(listed), tag))
    # array_position counts from 1 and gives 0 for an unlisted tag; only SQL's shiftleft takes a column.
    one = F.lit(1).cast("long")
    with_bit = lambda mask, bit: mask.bitwiseOR(F.call_function("shiftleft", one, (bit - 1).cast("int")))  # noqa: E731
    return F.aggregate(F.filter(bits, lambda bit: bit > 0), F.lit(0).cast("long"), with_bit)


def _texts(texts: Sequence[str]) -> Column:
    return F.array(*(F.lit(text) for text in texts)).cast("array<string>")


def _normalize(values: Column) -> Column:
    return F.array_sort(F.array_distinct(F.array_compact(values)))


def _check_tags(frame: DataFrame, tags: str) -> None:
    types = dict(frame.dtypes)
    if tags not in types:
        raise column_not_found("tags", tags, frame.columns)
    if types[tags] != "array<string>":
        raise TagError(f"column {tags!r} is of type {types[tags]}, not array<string>")


def _without(frame: DataFrame, name: str) -> list[str]:
    return [quoted(column) for column in frame.columns if column != name]
