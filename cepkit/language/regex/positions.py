"""Facts that follow from the tree of a regex pattern alone: empty words, first names, shortest words."""

from __future__ import annotations

from collections.abc import Iterator

from cepkit.language.regex.patterns import (
    Alternative,
    AnyEvent,
    Empty,
    Pattern,
    Repeat,
    Sequence,
    Variable,
    any_of_patterns,
    seq,
)


def is_nullable(pattern: Pattern) -> bool:
    """Return whether the pattern can match without any event."""
    match pattern:
        case Variable() | AnyEvent():
            return False
        case Empty():
            return True
        case Sequence(parts=parts):
            return all(map(is_nullable, parts))
        case Alternative(options=options):
            return any(map(is_nullable, options))
        case Repeat(body=body, low=low):
            return low == 0 or is_nullable(body)
    raise TypeError(f"no pattern: {type(pattern).__name__}")


def first_names(pattern: Pattern) -> tuple[str, ...]:
    """Return the names of predicates that can hold at the first event of a match, in reading order.

    Any event (``.``) has no name and is left out.

    Source: Aho, Lam, Sethi, Ullman, "Compilers", 2nd edition, section 3.9.4, firstpos.
    """
    return tuple(dict.fromkeys(leaf.name for leaf in first_leaves(pattern) if isinstance(leaf, Variable)))


def first_leaves(pattern: Pattern) -> Iterator[Variable | AnyEvent]:
    """Yield the leaves of the pattern that can take the first event of a match, in reading order."""
    match pattern:
        case Variable() | AnyEvent():
            yield pattern
        case Sequence(parts=parts):
            for part in parts:
                yield from first_leaves(part)
                if not is_nullable(part):
                    break
        case Alternative(options=options):
            for option in options:
                yield from first_leaves(option)
        case Repeat(body=body):
            yield from first_leaves(body)


def reported_form(pattern: Pattern) -> Pattern | None:
    """Return the part of the pattern that matters if each match is reported at its earliest end.

    A match ends with the first event that completes it, so everything after such an event that may be
    empty is dead. The result matches exactly what the pattern matches.
    """
    match pattern:
        case Empty():
            return None
        case Alternative(options=options):
            return _one_of(options)
        case Sequence(parts=parts) if is_nullable(pattern):
            return _one_of(parts)
        case Sequence(parts=parts):
            last = max(i for i, part in enumerate(parts) if not is_nullable(part))
            return seq(*parts[:last], reported_form(parts[last]))
        case Repeat(body=body, low=low):
            end = reported_form(body)
            if low <= 1 or is_nullable(body):
                return end
            return Repeat(body, low, low) if end == body else seq(_times(body, low - 1), end)
    return pattern


def _one_of(options: tuple[Pattern, ...]) -> Pattern | None:
    forms = [form for form in map(reported_form, options) if form is not None]
    if len(forms) > 1:
        # Flatten first, so that nested options are not repeated either.
        forms = list(dict.fromkeys(any_of_patterns(*forms).options))
    return any_of_patterns(*forms) if len(forms) > 1 else forms[0] if forms else None


def _times(body: Pattern, times: int) -> Pattern:
    return body if times == 1 else Repeat(body, times, times)
