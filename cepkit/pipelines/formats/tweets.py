"""Tweets as Atom XML: entries with author, time, text and the set of its tags (the paper's ParseTweet)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cepkit.errors import column_not_found
from cepkit.pipelines import spark_functions as F
from cepkit.pipelines.formats.format import PLACE, STRUCTURE, Format, Option, first_reason
from cepkit.pipelines.stages import (
    frequent_tags,
    hashtags,
    listed_tags,
    only_listed,
    other_tags,
    quoted,
    tag_code,
    tag_mask,
    unused,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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


FORMAT = Format(
    name="tweets",
    description="Tweets as Atom XML entries: author, time, text, the set of tags as a code and a bit mask",
    columns={
        "ts": "timestamp", "id": "string", "author": "string", "content": "string",
        "tags": "array<string>", "tag_code": "bigint", "tag_mask": "bigint",
    },
    partition_by="author",
    order_by=("ts", "id"),
    parse=parse_tweet_records,
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
