"""Sets of tags as numbers: a code per set for equality, a bit mask for disjointness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cepkit.errors import CepError, column_not_found
from cepkit.pipelines.stages import quoted, unused

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LARGEST_MASK = 63  # bits 0 to 62 of a bigint: masks stay positive numbers
OTHERS = ("error", "null", "ignore")

# As Twitter has it: a number alone is no tag, nor is what follows a letter or an ampersand (&#39; is an
# apostrophe), nor what runs into a further # or an address.
_HASHTAG = r"(?U)(?<![\w&])#(\w*[^\W\d]\w*+)(?!#|://)"


class TagError(CepError, ValueError):
    """A bit mask cannot hold the tags as asked."""


def hashtags(text: Column) -> Column:
    """Return the set of hashtags in a text: lower case, sorted, each once, without ``#``.

    Parameters
    ----------
    text : pyspark.sql.Column
        Of type string.

    Returns
    -------
    pyspark.sql.Column
        Of type ``array<string>``; empty when the text holds none, NULL when it is NULL.
    """
    from pyspark.sql import functions as F

    found = F.regexp_extract_all(text, F.lit(_HASHTAG))
    return F.array_sort(F.array_distinct(F.transform(found, lambda tag: F.lower(tag))))


def tag_code(frame: DataFrame, *, tags: str = "tags", name: str = "tag_code") -> DataFrame:
    """Return the frame with a number per set of tags: equal numbers, equal sets.

    Sets are numbered from 1 in their own order (by their sorted tags); the empty set is 0, NULL stays NULL.
    The numbers depend on nothing but the sets that occur in the frame; those of another frame mean other
    sets.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
    tags : str
        Column of type ``array<string>``; order and repetition in it do not count.
    name : str
        The new column, ``bigint``.

    Returns
    -------
    pyspark.sql.DataFrame

    Raises
    ------
    ColumnNotFoundError, TagError
        When ``tags`` is not a column, or not one of arrays of text.

    Notes
    -----
    A hash of the set would need no second look at the frame, but two sets can share one. Time: one shuffle of
    the sets and a join; all distinct sets pass through one task.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    _check_tags(frame, tags)
    key = unused(frame, "tag_set")
    keyed = frame.withColumn(key, _canonical(F.col(quoted(tags))))
    in_order = Window.orderBy(key).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    sets = keyed.select(key).where(F.col(key).isNotNull()).distinct()
    codes = sets.select(key, F.sum((F.size(key) > 0).cast("long")).over(in_order).alias(name))
    return keyed.drop(name).join(codes, key, "left").select(*_without(frame, name), name)


def tag_mask(
    frame: DataFrame,
    *,
    tags: str = "tags",
    listed: Sequence[str] | None = None,
    others: str = "error",
    name: str = "tag_mask",
) -> DataFrame:
    """Return the frame with each set of tags as a bit mask: ``a & b == 0`` says that two sets are disjoint.

    Bit ``i`` stands for ``listed[i]``. A mask holds at most 63 tags, so what happens to sets with further
    tags must be chosen: without them in the mask, two sets that share only such a tag would look disjoint.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
    tags : str
        Column of type ``array<string>``.
    listed : sequence of str, optional
        At most 63 tags; None: the most frequent ones of the frame (`frequent_tags`), which takes one job.
    others : {"error", "null", "ignore"}
        For sets that hold a tag that is not listed: raise (one job), give NULL, which makes every comparison
        unknown, or leave those tags out, so that the mask speaks of the listed tags only.
    name : str
        The new column, ``bigint``, never negative; the empty set is 0, NULL stays NULL.

    Returns
    -------
    pyspark.sql.DataFrame

    Raises
    ------
    ColumnNotFoundError
        When ``tags`` is not a column.
    TagError
        When more than 63 tags are listed, or one twice; or, with ``others="error"``, when a set holds another
        tag.
    """
    from pyspark.sql import functions as F

    _check_tags(frame, tags)
    other_tags(others)
    listed = frequent_tags(frame, tags=tags) if listed is None else listed_tags(listed)
    values = F.col(quoted(tags))
    if others == "error":
        n_rows = frame.where(~only_listed(values, listed)).count()
        if n_rows:
            raise TagError(
                f"tag_mask: {n_rows} rows hold tags beyond the {len(listed)} in the mask. List other tags "
                f"(at most {LARGEST_MASK}), or choose others='null' (no mask for these rows) or 'ignore' "
                "(those tags are left out)"
            )
    mask = _mask(values, listed)
    if others == "null":
        mask = F.when(only_listed(values, listed), mask)
    return frame.withColumn(name, mask)


def frequent_tags(frame: DataFrame, *, tags: str = "tags", n: int = LARGEST_MASK) -> list[str]:
    """Return the ``n`` tags in most sets of the frame, most frequent first, then by their text."""
    from pyspark.sql import functions as F

    _check_tags(frame, tags)
    counts = frame.select(F.explode(F.array_distinct(quoted(tags))).alias("tag")).groupBy("tag").count()
    return [row.tag for row in counts.orderBy(F.desc("count"), "tag").limit(n).collect()]


def listed_tags(tags: Sequence[str]) -> list[str]:
    """Return the tags of a mask as a list; raise `TagError` for more than 63, or one that stands twice."""
    listed = list(tags)
    if len(listed) > LARGEST_MASK:
        raise TagError(f"{len(listed)} tags are listed for a mask; it holds {LARGEST_MASK}")
    if len(set(listed)) < len(listed):
        raise TagError(f"tag {next(t for t in listed if listed.count(t) > 1)!r} is listed twice for a mask")
    return listed


def other_tags(others: str) -> str:
    """Return what is to happen to sets with further tags; raise `TagError` when that is none of `OTHERS`."""
    if others not in OTHERS:
        raise TagError(f"others={others!r} is not one of {', '.join(map(repr, OTHERS))}")
    return others


def only_listed(values: Column, listed: Sequence[str]) -> Column:
    """Return whether sets hold listed tags only."""
    from pyspark.sql import functions as F

    return F.forall(values, lambda tag: F.array_contains(_texts(listed), tag))


def _mask(values: Column, listed: Sequence[str]) -> Column:
    from pyspark.sql import functions as F

    bits = F.transform(F.array_distinct(values), lambda tag: F.array_position(_texts(listed), tag))
    # array_position counts from 1 and gives 0 for a tag that is not listed; shiftleft takes the shift as a
    # column in SQL only.
    return F.aggregate(
        F.filter(bits, lambda bit: bit > 0),
        F.lit(0).cast("long"),
        lambda mask, bit: mask.bitwiseOR(
            F.call_function("shiftleft", F.lit(1).cast("long"), (bit - 1).cast("int"))
        ),
    )


def _texts(texts: Sequence[str]) -> Column:
    from pyspark.sql import functions as F

    return F.array(*(F.lit(text) for text in texts)).cast("array<string>")


def _canonical(values: Column) -> Column:
    from pyspark.sql import functions as F

    return F.array_sort(F.array_distinct(F.array_compact(values)))


def _check_tags(frame: DataFrame, tags: str) -> None:
    types = dict(frame.dtypes)
    if tags not in types:
        raise column_not_found("tags", tags, frame.columns)
    if types[tags] != "array<string>":
        raise TagError(f"column {tags!r} holds {types[tags]}, not sets of tags (array<string>)")


def _without(frame: DataFrame, name: str) -> list[str]:
    return [quoted(column) for column in frame.columns if column != name]
