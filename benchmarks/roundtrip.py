"""What a round trip through each tokenizer keeps of real text: counts the lines of every corpus that do not come back.

python benchmarks/roundtrip.py FOLDER [--show N]

FOLDER is searched for `NAME.LANG.gz`, one sentence a line (of `NAME.code.gz` and `NAME.anno.gz` the language is taken
for English). For `none` and `char` a line comes back if it differs in nothing but runs of white space. For `moses`,
which normalises, three counts: lines whose text is not the normalised line (blanks aside: quotes that changed their
side, a space more or less, do not count), lines that are not the normalised line exactly, and lines whose second tokens
differ from their first, which is what decoding and training again would see. A token that is empty, holds white space
or becomes a special id would be a fault and ends the script.
"""

import argparse
import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from indigo_cli.core.moses import MosesTokenizer
from indigo_cli.core.tokenizer import make_tokenizer
from indigo_cli.core.vocab import NUM_SPECIALS, Vocabulary

NAME = re.compile(r".+\.(?P<lang>[a-z]{2}|code|anno)\.gz")
EXACT = ("none", "char")


@dataclass
class Counts:
    """Lines of a corpus in one language, and those that do not come back."""

    lines: int = 0
    none: int = 0
    char: int = 0
    letters: int = 0
    text: int = 0
    tokens: int = 0

    def add(self, other: "Counts") -> None:
        """Add another corpus."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", type=int, default=0, help="examples of each corpus whose second tokens differ")
    options = parser.parse_args()
    tokenizers: dict[str, MosesTokenizer] = {}
    totals = Counts()
    print("| corpus | language | lines | none | char | moses: letters | moses: text | moses: tokens |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for corpus in sorted(path for path in options.folder.iterdir() if path.is_dir()):
        languages: dict[str, list[Path]] = {}
        for path in sorted(corpus.glob("*.gz")):
            if match := NAME.fullmatch(path.name):
                languages.setdefault(match["lang"], []).append(path)
        for lang, paths in languages.items():
            code = lang if len(lang) == 2 else "en"
            if code not in tokenizers:
                tokenizers[code] = MosesTokenizer(code)
            counts = count(paths, code, tokenizers[code], options.show)
            totals.add(counts)
            print(row(corpus.name, lang, counts), flush=True)
    print(row("all", "", totals))


def row(corpus: str, lang: str, counts: Counts) -> str:
    """Return a row of the table."""
    return "| " + " | ".join([corpus, lang, *(f"{getattr(counts, field.name):,}" for field in fields(counts))]) + " |"


def count(paths: list[Path], lang: str, moses: MosesTokenizer, show: int) -> Counts:
    """Count the lines of some files that do not come back."""
    exact = {name: make_tokenizer(name, lang) for name in EXACT}
    counts = Counts()
    for line in lines_of(paths):
        counts.lines += 1
        plain = " ".join(line.split())
        for name, tokenizer in exact.items():
            back = tokenizer.detokenize(tokenizer.tokenize(line))
            setattr(counts, name, getattr(counts, name) + (back != plain))
        tokens = moses.tokenize(line)
        check(tokens, line)
        text, normal = moses.detokenize(tokens), " ".join(moses.normalize(line).split())
        counts.letters += text.replace(" ", "") != normal.replace(" ", "")
        counts.text += text != normal
        if (again := moses.tokenize(text)) != tokens:
            counts.tokens += 1
            if show > 0:
                show -= 1
                print(f"\n{line}\n{' '.join(tokens)}\n{text}\n{' '.join(again)}\n")
    return counts


def check(tokens: list[str], line: str) -> None:
    """Stop if a token cannot be one."""
    ids = Vocabulary(tuple(dict.fromkeys(tokens)), (1,) * len(set(tokens))).encode(tokens)
    if any(token.split() != [token] for token in tokens) or min(ids, default=NUM_SPECIALS) < NUM_SPECIALS:
        raise SystemExit(f"not tokens: {tokens!r} of {line!r}")


def lines_of(paths: list[Path]) -> Iterator[str]:
    """Yield the lines of files; only a newline ends one."""
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as stream:
            for line in stream:
                yield line.removesuffix("\n")


if __name__ == "__main__":
    main()
