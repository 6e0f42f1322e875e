"""Raw files and corpora made of them, for tests of preprocessing."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from indigo_cli.data.corpus import Corpus
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.prepare_settings import DataConfig, PreprocessConfig, SplitConfig

PLAIN: dict[str, Any] = {"tokenizer": "none", "vocabulary": "word"}


@dataclass(frozen=True)
class Recipe:
    name: str
    data: DataConfig
    preprocess: PreprocessConfig = field(default_factory=PreprocessConfig)


class Workshop:
    """Writes raw files and makes corpora of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = 0

    def write(self, name: str, content: str | bytes) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def recipe(
        self,
        source: str | bytes | None,
        target: str | bytes,
        *,
        task: str = "translation",
        lang: str = "en",
        **settings: Any,
    ) -> Recipe:
        """Return a recipe whose splits all read the same text."""
        sides = ([] if source is None else [self.write("s", source)], [self.write("t", target)])
        splits = {name: SplitConfig(*sides) for name in ("train", "valid")}
        return Recipe("tiny", DataConfig(task, lang, lang, splits), PreprocessConfig(**settings))

    def make(self, source: str | bytes | None, target: str | bytes, **settings: Any) -> Corpus:
        self.made += 1
        recipe = self.recipe(source, target, **settings)
        return Corpus.open(prepare(recipe, self.folder / f"corpus{self.made}").folder)

    def leftovers(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()} - {"s", "t"}


def tokens(corpus: Corpus, split: str, side: str) -> list[list[str]]:
    store = getattr(corpus.split(split), side)
    vocabulary = getattr(corpus.codecs, side).vocabulary
    return [vocabulary.decode(store[i].tolist()) for i in range(len(store))]


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
