"""Stages before matching on Spark frames: VWAP, least and greatest value, last prices, tags, and tweets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from cepkit.errors import CepError, column_not_found
from cepkit.language.expressions.durations import duration_ticks
from cepkit.pipelines.format import PLACE, STRUCTURE, F, Format, Option, first_reason

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec


Columns = str | Sequence[str]


class StageError(CepError, ValueError):
    """A stage cannot be applied to this frame with these arguments."""


def with_vwap(
    frame: DataFrame, *, partition_by: Columns, order_by: Columns, price: str = "price",
    size: str = "size", window: int | str | timedelta, name: str = "vwap",
) -> DataFrame:  # fmt: skip
    """Return the frame with the volume-weighted average price of a sliding window that ends with the row.

    It is ``sum(price * size) / sum(size)`` over the rows of the key in the window, without rows where either
    is NULL.

    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012, section 5.1
    (finance3). Differs: the paper's source computes it by resubscription with overlapping matches; here it
    is an ordinary window.
    """
    keys, order = _check_columns(frame, partition_by, order_by, price=price, size=size)
    weight = f"if({quoted(price)} is null, null, double({quoted(size)}))"
    value = f"double({quoted(price)}) * {weight}"
    if isinstance(window, int) and not isinstance(window, bool):
        rows = _in_order(keys, order).rowsBetween(1 - _positive("window", window), 0)
        total, weights = (F.sum(F.expr(summed)).over(rows) for summed in (value, weight))
    else:
        total, weights = (_sum_over_time(frame, summed, keys, order, window) for summed in (value, weight))
    return frame.withColumn(name, F.when(weights != 0, F.try_divide(total, weights)))


def minmax(
    frame: DataFrame, *, partition_by: Columns, order_by: Columns, value: str = "price", k: int
) -> DataFrame:
    """Return one row per ``k`` consecutive rows of a key, with their least and greatest value.

    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012, section 5.1
    (finance4).
    """
    keys, order = _check_columns(frame, partition_by, order_by, value=value)
    _positive("k", k)
    taken = {"mn", "mx"} & {*keys, *order}
    if taken:
        raise StageError(f"minmax: column {min(taken)!r} is the name of a result; rename it first")
    row = F.row_number().over(_in_order(keys, order)) - 1
    numbered = frame.select(
        F.struct(*(F.col(quoted(c)).alias(f"k{i}") for i, c in enumerate(keys))).alias("key"),
        F.struct(*(F.col(quoted(c)).alias(f"o{i}") for i, c in enumerate(order))).alias("place"),
        F.col(quoted(value)).alias("value"),
        row.alias("row"),
    )
    windows = (
        numbered.groupBy("key", F.floor(F.col("row") / k).alias("window"))
        .agg(
            F.max_by("place", "row").alias("place"),
            F.min("value").alias("mn"),
            F.max("value").alias("mx"),
            F.count("*").alias("n_rows"),
        )
        .where(F.col("n_rows") == k)
    )
    return windows.select(
        *(F.col(f"place.o{i}").alias(c) for i, c in enumerate(order)),
        *(F.col(f"key.k{i}").alias(c) for i, c in enumerate(keys) if c not in order),
        "mn",
        "mx",
    )


def with_last_prices(
    frame: DataFrame, *, k: int = 20, partition_by: Columns = "symbol", order_by: Columns = "ts",
    price: str = "price", name: str = "last_prices",
) -> DataFrame:  # fmt: skip
    """Return the frame with an array of the last ``k`` prices of the key, the oldest first."""
    keys, order = _check_columns(frame, partition_by, order_by, price=price)
    rows = _in_order(keys, order).rowsBetween(1 - _positive("k", k), 0)
    # collect_list drops NULLs, but not structs with a NULL inside.
    collected = F.collect_list(F.struct(F.col(quoted(price)).alias("price"))).over(rows)
    return frame.withColumn(name, collected.getField("price"))


def _sum_over_time(
    frame: DataFrame, summed: str, keys: list[str], order: list[str], window: str | timedelta
) -> Column:
    """Return the sum of an SQL expression over the rows from ``window`` before this row up to this row."""
    # A range over time includes later rows with the same time. So the sum is that of the earlier times plus
    # that of the rows of this time up to this one. (Subtraction of the later ones would lose digits.)
    from pyspark.sql.window import Window

    clock = order[0]
    kind = dict(frame.dtypes)[clock]
    if kind not in ("timestamp", "timestamp_ntz"):
        raise StageError(
            f"window {window!r} is a duration, but {clock!r} is {kind}; give a number of rows, as in 100"
        )
    ticks = _positive("window", duration_ticks(window, "us"))
    seconds, microseconds = divmod(ticks, 1_000_000)
    # Only SQL takes intervals as bounds of a range, and both must have the same units.
    earlier = F.expr(
        f"sum({summed}) over (partition by {', '.join(map(quoted, keys))} order by {quoted(clock)} "
        f"range between interval '{seconds}.{microseconds:06}' second preceding "
        "and interval '0.000001' second preceding)"
    )
    rows_now = _in_order([*keys, clock], order[1:] or order).rowsBetween(Window.unboundedPreceding, 0)
    now = F.sum(F.expr(summed)).over(rows_now)
    return F.coalesce(earlier, F.lit(0.0)) + F.coalesce(now, F.lit(0.0))


def _check_columns(
    frame: DataFrame, partition_by: Columns, order_by: Columns, **columns: str
) -> tuple[list[str], list[str]]:
    """Return the key and order columns as lists; raise an error when a column is missing."""
    keys = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    order = [order_by] if isinstance(order_by, str) else list(order_by)
    if not order:
        raise StageError("order_by names no column, and the rows of a Spark frame have no order")
    if not keys:
        raise StageError(
            "partition_by names no column; to make all rows one key, add a column with one value"
        )
    named = [("partition_by", c) for c in keys] + [("order_by", c) for c in order] + list(columns.items())
    for role, column in named:
        if column not in frame.columns:
            raise column_not_found(role, column, frame.columns)
    return keys, order


def _in_order(keys: list[str], order: list[str]) -> WindowSpec:
    from pyspark.sql.window import Window

    return Window.partitionBy(*map(quoted, keys)).orderBy(*map(quoted, order))


def quoted(column: str) -> str:
    """Return a column's name in backquotes, so that it may contain dots, blanks or quotes."""
    return "`" + column.replace("`", "``") + "`"


def unused(frame: DataFrame, name: str) -> str:
    """Return ``name``, after as many underscores as it needs to be no column of the frame."""
    while name in frame.columns:
        name = f"_{name}"
    return name


def _positive(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise StageError(f"{name} is {value!r}; expected a positive whole number")
    return value


# Sets of tags as numbers: a code per set to test equality, a bit mask to test disjointness.

LARGEST_MASK = 63  # bits 0 to 62 of a bigint, so that masks are not negative
OTHERS = ("error", "null", "ignore")

# By Twitter's rules a tag is not a number alone, does not follow a letter or an ampersand (&#39; is an
# apostrophe), and does not continue with a further # or an address.
_HASHTAG = r"(?U)(?<![\w&])#(\w*[^\W\d]\w*+)(?!#|://)"


class TagError(CepError, ValueError):
    """A bit mask cannot represent these tags."""


def hashtags(text: Column) -> Column:
    """Return the set of hashtags in a text, in lower case, sorted, without ``#``."""
    tags = F.regexp_extract_all(text, F.lit(_HASHTAG))
    return F.array_sort(F.array_distinct(F.transform(tags, lambda tag: F.lower(tag))))


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
    low_bit = F.lit(1).cast("long")
    with_bit = lambda mask, bit: mask.bitwiseOR(F.call_function("shiftleft", low_bit, (bit - 1).cast("int")))  # noqa: E731
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


# Tweets as Atom XML: entries with author, time, text and the set of its tags (the paper's ParseTweet).

END_OF_ENTRY = "</entry>"

# Repeated elements arrive as arrays; with plain strings Spark would silently keep the last one.
_ENTRY = (
    "id array<string>, published array<string>, content array<string>, author array<struct<name:string>>, "
    "malformed string"
)
# Date, time and zone. Spark keeps microseconds, so further digits must be zeros.
_TIME = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6}0*)?(Z|[+-]\d{2}:\d{2})$"
_FEED = r"(?s)^(<\?xml.*?\?>)?\s*(<feed[\s>].*)?$|^</feed>$"


def parse_tweets(frame: DataFrame, *, xml: str = "xml") -> DataFrame:
    """Return the frame with the columns of a tweet, read from the Atom entry of each row.

    XML entities are resolved; document types and external entities are refused. Source: Hirzel, "Partition
    and Compose: Parallel Complex Event Processing", DEBS 2012, section 5.1 (ParseTweet).
    """
    if xml not in frame.columns:
        raise column_not_found("xml", xml, frame.columns)
    text = F.col(quoted(xml))
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": "malformed",
        "ignoreSurroundingSpaces": "false",
    }
    if "reason" not in frame.columns:
        frame = frame.withColumn("reason", F.lit(None).cast("string"))
    entry = unused(frame, "entry")
    entries = frame.withColumn(entry, F.from_xml(text, _ENTRY, options))
    time, author = F.trim(F.get(f"{entry}.published", 0)), F.trim(F.get(f"{entry}.author.name", 0))
    content = F.get(f"{entry}.content", 0)
    return (
        entries.withColumns(
            {
                "ts": F.when(time.rlike(_TIME), time.try_cast("timestamp_ltz")),
                "id": F.trim(F.get(f"{entry}.id", 0)),
                "author": author,
                "content": content,
                "tags": hashtags(content),
            }
        )
        .withColumn(
            "reason",
            first_reason(
                [
                    (text.isNotNull(), "there is no XML"),
                    (F.regexp_count(text, F.lit(r"<entry[\s>]")) <= 1, "more than one entry"),
                    (F.col(f"{entry}.malformed").isNull(), "the entry is not well-formed XML"),
                    *(
                        (F.coalesce(F.size(f"{entry}.{name}"), F.lit(0)) < 2, f"more than one {name}")
                        for name in ("id", "published", "content")
                    ),
                    (F.col("id") != "", "the entry has no id"),
                    (author != "", "the entry has no author"),
                    (content.isNotNull(), "the entry has no content"),
                    (F.col("ts").isNotNull(), "published is not a time with a zone (RFC 3339)"),
                ]
            ),
        )
        .drop(entry)
    )


def parse_tweet_records(records: DataFrame) -> DataFrame:
    """Return the tweets of Atom files with whole feeds or single entries, on any number of lines."""
    parts = F.split(F.col("text"), r"(?=<entry[\s>])", -1)
    placed = F.transform(
        parts,
        lambda part, i: F.struct(
            F.regexp_replace(part, r"^\s+|\s+$", "").alias("shown"),
            part.alias("text"),
            (i + 1 == F.size(parts)).alias("closed"),
            F.regexp_count(
                F.concat(F.array_join(F.slice(parts, 1, i), ""), F.regexp_extract(part, r"^\s*", 0)),
                F.lit("\n"),
            ).alias("lines_before"),
        ),
    )
    pieces = records.select(
        *PLACE,
        "reason",
        F.posexplode_outer(F.filter(placed, lambda part: part.shown != "")).alias("piece", "part"),
    )
    is_entry = F.col("part.shown").startswith("<entry")
    outside = F.when(F.coalesce(F.col("part.shown"), F.lit("")).rlike(_FEED), STRUCTURE).otherwise(
        "text outside of an entry"
    )
    closed = F.when(is_entry & F.col("part.closed"), F.concat("part.text", F.lit(END_OF_ENTRY)))
    return parse_tweets(
        pieces.select(
            "source_file",
            (F.col("source_line") + F.coalesce("part.lines_before", F.lit(0))).alias("source_line"),
            "split",
            "row",
            F.coalesce("piece", F.lit(0)).alias("piece"),
            F.coalesce(closed, "part.shown").alias("text"),
            F.coalesce(
                "reason",
                F.when(~F.coalesce(is_entry, F.lit(False)), outside),
                F.when(closed.isNull(), "the entry is not closed"),
            ).alias("reason"),
        ),
        xml="text",
    )


def finish_tweets(
    tweets: DataFrame, *, mask_tags: Sequence[str] | str | None = None, others: str = "null"
) -> tuple[DataFrame, dict]:
    """Return the tweets with ``tag_code`` and ``tag_mask``, and notes on the tags for the report."""
    listed = frequent_tags(tweets) if mask_tags is None else _mask_tags(mask_tags)
    masked = tag_mask(tag_code(tweets), listed=listed, others=others)
    beyond = tweets.select(
        F.count_if(~only_listed(F.col("tags"), listed)).alias("n_rows"),
        F.count_distinct("tags").alias("n_sets"),
    ).first()
    notes = {
        "tag sets": beyond.n_sets,
        "tags in the mask, from bit 0": listed,
        f"tweets with tags beyond the mask (others={others!r})": beyond.n_rows,
    }
    return masked, notes


def _mask_tags(tags: Sequence[str] | str) -> list[str]:
    return listed_tags([tag.strip() for tag in tags.split(",")] if isinstance(tags, str) else tags)


TWEETS = Format(
    name="tweets",
    description="Tweets as Atom XML entries: author, time, text, the set of tags as a code and a bit mask",
    columns={
        "ts": "timestamp", "id": "string", "author": "string", "content": "string",
        "tags": "array<string>", "tag_code": "bigint", "tag_mask": "bigint",
    },
    partition_by="author", order_by=("ts", "id"), parse=parse_tweet_records,
    options={
        "mask_tags": Option(
            "at most 63 tags for the mask, separated by commas; by default the most frequent", _mask_tags
        ),
        "others": Option(
            "sets with further tags: null (no mask), ignore (leave them out), error; by default null",
            other_tags,
        ),
    },
    separator=END_OF_ENTRY,
    finish=finish_tweets,
)  # fmt: skip
