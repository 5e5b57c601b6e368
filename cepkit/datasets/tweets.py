"""Seeded tweets with hash tags, as a frame and as Atom XML; independent of patterns and engines."""

from __future__ import annotations

from xml.sax.saxutils import escape

import numpy as np
import pandas as pd

from cepkit.datasets.trades import check, check_count, start_ticks
from cepkit.errors import column_not_found

# Measured on 9,214 public tweets that were selected by their hash tags.
UNTAGGED = 0.235  # tweets without a tag
SHARE_OF_TAG_COUNT = (0.2419, 0.2196, 0.1447, 0.0811, 0.0395, 0.0378)  # 1, 2, …, 6 (and more) tags
TAG_SHARES = (  # of the frequent tags, among all tweets
    *(0.546, 0.133, 0.096, 0.070, 0.061, 0.044, 0.035, 0.030, 0.029, 0.028, 0.022, 0.020),
    *(0.018, 0.017, 0.015, 0.012, 0.011, 0.009, 0.008, 0.008, 0.007, 0.007, 0.007, 0.007, 0.007),
)
LENGTH_PROBABILITY = (0.0, 0.01, 0.05, 0.25, 0.50, 0.75, 0.95, 0.99, 1.0)
LENGTHS = (44, 44, 67, 112, 124, 130, 130, 134, 134)
SAME_AGAIN = 0.19  # rate at which authors without a habit repeat their tags; chance makes it 0.255
AUTHORS_OF_STRATUM = 5  # equally active authors; each such group has the same share of authors with a habit
# Tweets of an author: P(more than k) = (1 + k / AUTHOR_SCALE) ** -shape, at most 1 % of all tweets.
AUTHOR_SCALE = 0.5

FREQUENT_TAGS = (
    *("Business", "Writers", "News", "Music", "Jobs", "Travel", "Health", "Sports", "Food", "Photo", "Tech"),
    *("Books", "Science", "Design", "Weather", "Movies", "Games", "Energy", "History", "Coffee", "Running"),
    *("Garden", "Trains", "Chess", "Stars"),
)
RARE_TAGS_OF_TWEET, N_RARE_TAGS, N_WORDS = 8, 2600, 3000
ODD_WORDS = ("&", "<3", "naïve", '"so"')  # text that trips careless XML readers

# Keywords of `tweets` for which twitter1 and twitter2 select the shares in the paper (14.07 %, 2.15 %). The
# default of `stickiness` was fitted to them, too, over the seeds 0 to 19.
PAPER_TWEETS = {"untagged": 0.0}


def tweets(
    n_events: int = 10_000, *, n_authors: int = 6142, seed: int = 0, repetitions: int = 1,
    start: str = "2011-11-01 12:00:00", rate_hz: float = 10_000 / 6600, untagged: float = UNTAGGED,
    stickiness: float = 0.8,
) -> pd.DataFrame:  # fmt: skip
    """Return tweets of many authors in time order.

    Most authors tweet once, a few tweet often. An author either has a habit and uses one set of tags in all
    tweets, or changes the set in three of four tweets. The words have no meaning.

    Parameters
    ----------
    n_events : int
        Number of tweets in one block, at least 1; the frame has ``n_events * repetitions`` rows.
    n_authors : int
        Number of authors, from 1 to ``n_events``; each has at least one tweet.
    seed : int
        Seed, at least 0. The same arguments give the same frame.
    repetitions : int
        Number of copies of the block, with shifted ``ts`` and ``id``, as in the paper.
    start : str
        Start of the first block.
    rate_hz : float
        Tweets per second, above 0 and at most 1,000. A block lasts ``n_events / rate_hz`` seconds.
    untagged : float
        Share of tag sets that are empty, from 0 to 1.
    stickiness : float
        Share of authors with a habit, from 0 to 1. In the measured tweets it is nearly 0.

    Returns
    -------
    pandas.DataFrame
        Columns ``ts`` (datetime64[us], no zone, whole milliseconds, strictly increasing), ``id`` (int64, 1,
        2, …), ``author`` (categorical, the most active first), ``content`` (text of 44 to 134 characters
        with the tags in it, as ``#Tag`` or ``#tag``), ``tags`` (text: the tags in lower case, sorted,
        separated by blanks; ``""`` without tags).

    Raises
    ------
    CepError
        If an argument is out of range.

    Notes
    -----
    Time and memory O(n_events * repetitions); a block of 10,000 takes a fraction of a second.

    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012, table 4: 10,000
    tweets of 6,142 authors, repeated 20 times to 200,000 events in 36 h 40 min.
    Differs: the paper's tweets were never published. Tags, lengths and tweets per author are those of a
    public set of the same size. Its authors repeat their tags too rarely for the paper's matches (14.07 % of
    the events for successive tweets with the same tags), hence ``stickiness``. The paper's tweets were all
    found by a tag, so its benchmarks need :data:`PAPER_TWEETS`.

    Examples
    --------
    >>> frame = tweets(repetitions=20)
    >>> len(frame), frame["author"].nunique(), str(frame["ts"].iloc[-1] - frame["ts"].iloc[0])[:12]
    (200000, 6142, '1 days 12:39')
    """
    check_count("tweets: n_events", n_events, 1)
    check_count("tweets: n_authors", n_authors, 1, n_events)
    check_count("tweets: seed", seed, 0)
    check_count("tweets: repetitions", repetitions, 1)
    check("tweets: rate_hz", rate_hz, 1e-3, 1000)
    check("tweets: untagged", untagged, 0, 1)
    check("tweets: stickiness", stickiness, 0, 1)
    start_us = start_ticks("tweets", start)

    rng_time, rng_author, rng_habit, rng_tags, rng_text = np.random.default_rng(seed).spawn(5)
    block_ms = max(n_events, round(n_events / rate_hz * 1000))
    ts_ms = np.sort(rng_time.choice(block_ms, size=n_events, replace=False))
    ts_ms -= ts_ms[0]
    author = np.repeat(np.arange(n_authors), _tweets_of_author(n_events, n_authors))
    author = author[np.argsort(rng_author.random(n_events))]

    set_of_tweet = _tag_sets_by_habit(rng_habit, author, n_authors, stickiness)
    tags_of_set = _draw_tag_sets(rng_tags, n_events, untagged)
    tags_of_tweet = [tags_of_set[s] for s in set_of_tweet.tolist()]
    texts = _texts(rng_text, tags_of_tweet)
    sorted_tags = [" ".join(sorted(tag.lower() for tag in tags)) for tags in tags_of_tweet]

    shift_us = np.repeat(np.arange(repetitions) * block_ms * 1000, n_events)
    names = [f"author{a:0{len(str(n_authors))}d}" for a in range(1, n_authors + 1)]
    return pd.DataFrame(
        {
            "ts": (np.tile(ts_ms * 1000 + start_us, repetitions) + shift_us).view("datetime64[us]"),
            "id": np.arange(1, n_events * repetitions + 1, dtype=np.int64),
            "author": pd.Categorical.from_codes(np.tile(author, repetitions), names),
            "content": texts * repetitions,
            "tags": sorted_tags * repetitions,
        }
    )


def tweets_as_atom_xml(frame: pd.DataFrame) -> list[str]:
    """Return each tweet as the text of one Atom ``<entry>``, in the order of the rows.

    Parameters
    ----------
    frame : pandas.DataFrame
        Must have the columns ``ts`` (naive times are taken as UTC), ``id``, ``author`` and ``content``.

    Returns
    -------
    list of str
        One line each: ``<entry><id/><published/><content/><author><name/></author></entry>`` without a
        namespace; ``published`` as ``2011-11-01T12:00:00.000Z``; ``&``, ``<`` and ``>`` are escaped.

    Raises
    ------
    ColumnNotFoundError
        If one of the columns is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"ts": [pd.Timestamp("2011-11-01")], "id": 7, "author": "a", "content": "1 < 2"})
    >>> tweets_as_atom_xml(frame)[0][:64]
    '<entry><id>7</id><published>2011-11-01T00:00:00.000Z</published>'
    >>> tweets_as_atom_xml(frame)[0][64:]
    '<content>1 &lt; 2</content><author><name>a</name></author></entry>'
    """
    for name in ("ts", "id", "author", "content"):
        if name not in frame.columns:
            raise column_not_found("tweets_as_atom_xml", name, frame.columns)
    ts = frame["ts"] if frame["ts"].dt.tz is None else frame["ts"].dt.tz_convert("UTC").dt.tz_localize(None)
    published = np.datetime_as_string(ts.to_numpy().astype("datetime64[ms]"))
    return [
        f"<entry><id>{key}</id><published>{time}Z</published><content>{escape(content)}</content>"
        f"<author><name>{escape(author)}</name></author></entry>"
        for key, time, content, author in zip(
            frame["id"], published, frame["content"], frame["author"].astype(str), strict=True
        )
    ]


def _tweets_of_author(n_tweets: int, n_authors: int) -> np.ndarray:
    """Return the number of tweets of each author, largest first; the sum is ``n_tweets``."""
    most = max(n_tweets // 100, -(-n_tweets // n_authors))
    quantile = (np.arange(n_authors) + 0.5) / n_authors

    def counts(shape: float) -> np.ndarray:
        return 1 + np.floor(np.minimum(AUTHOR_SCALE * (quantile ** (-1 / shape) - 1), most - 1)).astype(
            np.int64
        )

    # The sum falls as the shape grows: from all authors at `most` to all authors at one tweet.
    low, high = 1e-3, 1e3
    for _ in range(60):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if counts(middle).sum() >= n_tweets else (low, middle)
    tweets_of_author = counts(high)
    missing = n_tweets - tweets_of_author.sum()
    room = np.flatnonzero(tweets_of_author < most)
    while missing:
        more = room[:missing]
        tweets_of_author[more] += 1
        missing -= len(more)
    return tweets_of_author


def _tag_sets_by_habit(
    rng: np.random.Generator, author: np.ndarray, n_authors: int, stickiness: float
) -> np.ndarray:
    """Return for each tweet the index of the tweet whose tags it has: itself or the author's earlier one."""
    has_habit = _draw_evenly(rng, n_authors) < stickiness
    by_author = np.argsort(author, kind="stable")
    sorted_author = author[by_author]
    is_first = np.diff(sorted_author, prepend=-1) != 0
    again = has_habit[sorted_author] | (rng.random(len(author)) < SAME_AGAIN)
    latest = np.maximum.accumulate(np.where(is_first | ~again, np.arange(len(author)), 0))
    set_of_tweet = np.empty_like(by_author)
    set_of_tweet[by_author] = by_author[latest]  # back in the order of the tweets
    return set_of_tweet


def _draw_evenly(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw ``n`` numbers from 0 to 1, such that every `AUTHORS_OF_STRATUM` successive ones are spread evenly.

    Independent numbers would leave it to chance how many of the most active authors have a habit, and these
    few authors decide how often the tags change in the whole block.
    """
    n_strata = -(-n // AUTHORS_OF_STRATUM)
    place = np.argsort(rng.random((n_strata, AUTHORS_OF_STRATUM)), axis=1)
    drawn = (place + rng.random((n_strata, AUTHORS_OF_STRATUM))) / AUTHORS_OF_STRATUM
    return drawn.ravel()[:n]


def _draw_tag_sets(rng: np.random.Generator, n_sets: int, untagged: float) -> list[list[str]]:
    """Draw sets of different tags: frequent ones by their shares, the others from a long tail."""
    n_tags = 1 + np.searchsorted(
        np.cumsum(SHARE_OF_TAG_COUNT[:-1]) / sum(SHARE_OF_TAG_COUNT), rng.random(n_sets)
    )
    n_tags[rng.random(n_sets) < untagged] = 0

    # A race: each tag arrives at an exponential time, and the first n_tags make the set. With the rates
    # below, the probability that a tag is among them is about its share of the tagged tweets.
    mean_tags = np.dot(SHARE_OF_TAG_COUNT, np.arange(1, 7)) / sum(SHARE_OF_TAG_COUNT)
    share = np.array(TAG_SHARES) / (1 - UNTAGGED)
    rare_share = np.full(RARE_TAGS_OF_TWEET, (mean_tags - share.sum()) / RARE_TAGS_OF_TWEET)
    rate = -np.log1p(-np.concatenate([share, rare_share]))
    rate[0] *= 1.35  # only this tag is so frequent that the fixed length of the race reduces its share
    arrival = -np.log1p(-rng.random((n_sets, len(rate)))) / rate
    first_tags = np.argsort(arrival, axis=1)[:, :6]

    rare = _words(rng, N_RARE_TAGS, least=5, most=11)
    rare_of_set = np.floor(N_RARE_TAGS * rng.random((n_sets, RARE_TAGS_OF_TWEET)) ** 2).astype(np.int64)
    n_frequent = len(FREQUENT_TAGS)
    tag_sets = []
    for i in range(n_sets):
        tags = []
        for t in first_tags[i, : n_tags[i]].tolist():
            is_frequent = t < n_frequent
            tags.append(
                FREQUENT_TAGS[t] if is_frequent else rare[rare_of_set[i, t - n_frequent]].capitalize()
            )
        tag_sets.append(list(dict.fromkeys(tags)))
    return tag_sets


def _words(rng: np.random.Generator, n_words: int, *, least: int, most: int) -> list[str]:
    """Return pronounceable words of ``least`` to ``most`` letters without meaning; some may be equal."""
    lengths = least + np.floor((most - least + 1) * rng.random(n_words)).astype(np.int64)
    draws = rng.random((n_words, most))
    starts_with_vowel = rng.random(n_words) < 0.3
    words = []
    for length, is_vowel, row in zip(
        lengths.tolist(), starts_with_vowel.tolist(), draws.tolist(), strict=True
    ):
        word = ""
        for number in row[:length]:
            letters = "aeiou" if is_vowel else "bcdfghjklmnprstvwz"
            word += letters[int(number * len(letters))]
            is_vowel = not is_vowel
        words.append(word)
    return words


def _texts(rng: np.random.Generator, tags_of_tweet: list[list[str]]) -> list[str]:
    """Return a text for each set of tags, with the tags at random places among words."""
    n_texts = len(tags_of_tweet)
    vocabulary = [*_words(rng, N_WORDS, least=2, most=10), *ODD_WORDS * 15]
    length = np.interp(rng.random(n_texts), LENGTH_PROBABILITY, LENGTHS).astype(np.int64).tolist()
    word = np.floor(len(vocabulary) * rng.random((n_texts, max(LENGTHS) // 3 + 1))).astype(np.int64).tolist()
    place = rng.random((n_texts, 6)).tolist()
    lower = (rng.random((n_texts, 6)) < 0.5).tolist()
    return [
        _text(tags_of_tweet[i], length[i], [vocabulary[w] for w in word[i]], place[i], lower[i])
        for i in range(n_texts)
    ]


def _text(tags: list[str], length: int, words: list[str], place: list[float], lower: list[bool]) -> str:
    """Return words and ``#tags`` joined by blanks: ``length`` characters, or more if the tags need more."""
    marks = ["#" + (tag.lower() if low else tag) for tag, low in zip(tags, lower, strict=False)]
    room = max(1, length - sum(len(mark) + 1 for mark in marks))
    parts: list[str] = []
    for word in words:
        if room - len(word) <= 3:
            break
        parts.append(word)
        room -= len(word) + 1
    parts.append("".join(word for word in reversed(words) if word.isalpha())[:room])
    for mark, share in zip(marks, place, strict=False):
        parts.insert(int(share * (len(parts) + 1)), mark)
    return " ".join(parts)
