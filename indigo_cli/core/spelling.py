"""Two spellings of a word made one: only on request, and only in text of the language they belong to."""

ROMANIAN = str.maketrans("\u015f\u015e\u0163\u0162", "\u0219\u0218\u021b\u021a")
"""S and t with a cedilla, which old keyboards and fonts had, to those with a comma below, which Romanian writes.

Source: standard SR 13411 (1999); Unicode's normal forms keep the two apart.
"""
SPELLINGS: dict[str, tuple[str, dict[int, int]]] = {"romanian": ("ro", ROMANIAN)}
"""Language code and replaced characters of each name in a recipe."""


def respell(line: str, spelling: str) -> str:
    """Return the line in a spelling of `SPELLINGS`, as it stands if the name is empty."""
    return line.translate(SPELLINGS[spelling][1]) if spelling else line
