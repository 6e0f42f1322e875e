"""Pieces that a side hardly ever shows are split again, merge by merge, into pieces that it does show.

Source: subword-nmt 0.3.8, `apply_bpe --vocabulary --vocabulary-threshold` (Sennrich et al. 2017, WMT, section 4).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

Pair = tuple[str, str]


def origins(merges: Iterable[Pair]) -> dict[str, Pair]:
    """Return the pair that each merged symbol comes from, the first one learnt where there are several."""
    found: dict[str, Pair] = {}
    for first, second in merges:
        found.setdefault(first + second, (first, second))
    return found


def split_rare(symbols: Sequence[str], origin: Mapping[str, Pair], is_known: Callable[[str], bool]) -> list[str]:
    """Return the symbols with each that is not known replaced by the two it was merged from, and so on.

    What was never merged stays, known or not.

    Args:
        symbols: Of one word, the last one with its mark of the end.
        origin: See `origins`.
        is_known: Tells whether a symbol may stay.
    """
    done: list[str] = []
    waiting = list(reversed(symbols))
    while waiting:
        symbol = waiting.pop()
        pair = None if is_known(symbol) else origin.get(symbol)
        if pair is None:
            done.append(symbol)
        else:
            waiting.extend(reversed(pair))
    return done
