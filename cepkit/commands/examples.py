"""The commands that ``cepkit examples`` lists: each runs as it is, on a bundled sample."""

from __future__ import annotations

_UP_DOWN = '--define "up=price > prev(price)" --define "down=price < prev(price)"'
_BY_SYMBOL = "--partition-by symbol --order-by ts,seq"
_PEAKS = "--partition-by symbol --order-by ts"

# What a command does, and the command.
EXAMPLES: tuple[tuple[str, str], ...] = (
    (
        "three drops in a row, then a rise, per symbol",
        f'cepkit match sample:trades "down{{3,}} up" {_UP_DOWN} {_BY_SYMBOL}',
    ),
    (
        "the same within two minutes, with result columns of your own",
        f'cepkit match sample:trades "down{{3,}} up" {_UP_DOWN} {_BY_SYMBOL} --within "2 min" '
        '--measure "at=first(ts)" --measure "rows=count()" --measure "low=min(price)"',
    ),
    (
        "a jump by more than a share that you can change",
        'cepkit match sample:trades "jump" --define "jump=price > (1 + :share) * prev(price)" '
        f"--param share=0.01 {_BY_SYMBOL}",
    ),
    (
        "the matched rows themselves",
        f'cepkit match sample:peaks "up{{3,}} down" {_UP_DOWN} {_PEAKS} --rows all',
    ),
    (
        "events in order, with others between them: a trade of AAA, then a dearer one of AAB within a second",
        'cepkit match sample:trades "PATTERN SEQ(AAA a, AAB b) WHERE b.price > a.price WITHIN 1 s" '
        "--event-type symbol --order-by ts,seq",
    ),
    (
        "the same, but no AAC may lie between them, and only the first dearer AAB counts",
        'cepkit match sample:trades "PATTERN SEQ(AAA a, !AAC c, AAB b) WHERE b.price > a.price WITHIN 1 s" '
        "--event-type symbol --order-by ts,seq --strategy next",
    ),
    (
        "SQL's MATCH_RECOGNIZE as it is, with the rows of its result: the lowest price of every fall",
        'cepkit match sample:peaks "SELECT symbol, low, n FROM peaks MATCH_RECOGNIZE (PARTITION BY symbol '
        "ORDER BY ts MEASURES LAST(down.price) AS low, COUNT(down.*) AS n PATTERN (down{2,} up) "
        'DEFINE down AS price < PREV(price), up AS price > PREV(price)) AS m WHERE n > 2"',
    ),
    (
        "how cepkit reads a query, and which engine runs it",
        f'cepkit explain sample:trades "down{{3,}} up" {_UP_DOWN} {_BY_SYMBOL}',
    ),
    (
        "all matches as CSV, for a pipe",
        f'cepkit match sample:peaks "up+ down" {_UP_DOWN} {_PEAKS} --format csv',
    ),
    (
        "the first three as JSON",
        f'cepkit match sample:trades "down{{3,}} up" {_UP_DOWN} {_BY_SYMBOL} --format json --limit 3',
    ),
    ("only the number of matches", f'cepkit match sample:trades "up down" {_UP_DOWN} {_BY_SYMBOL} --limit 0'),
)
