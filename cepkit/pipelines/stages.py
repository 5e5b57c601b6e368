"""Stages before matching on Spark frames: tags as numbers, and tweets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cepkit.errors import CepError, column_not_found
from cepkit.pipelines.format import PLACE, STRUCTURE, F, Format, Option, first_reason

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def quoted(column: str) -> str:
    """Return a column's name in backquotes, so that it may contain dots, blanks or quotes."""
    return "`" + column.replace("`", "``") + "`"


def unused(frame: DataFrame, name: str) -> str:
    """Return ``name``, after as many underscores as it needs to be no column of the frame."""
    while name in frame.columns:
        name = f"_{name}"
    return name


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
    """Return the column of tags as a mask, with a bit for each listed tag."""
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
    """Raise if a column is no array of texts."""
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
        "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "malformed", "ignoreSurroundingSpaces": "false",
    }  # fmt: skip
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
                "id": F.trim(F.get(f"{entry}.id", 0)), "author": author, "content": content,
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
    )  # fmt: skip


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
