"""What the demo can learn: where the text of a task comes from, how it is scored, and what is told about it."""

import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from indigo_cli.data.files import atomic_write_text
from indigo_cli.demo.sentences import MAX_WORDS, MIN_WORDS, Sentences, load_sentences
from indigo_cli.demo.star_graph import SIZES, write_star_graphs

TINY_FOLDERS = ("asyncio", "email", "importlib", "logging", "pydoc_data", "unittest")
"""Parts of the standard library that make up the tiny size of the sentences."""
TINY_HELD_OUT = 40


@dataclass(frozen=True)
class DemoTask:
    """A task that models learn in two orders.

    Args:
        title: Heading.
        introduction: What was learnt from what, with places for `train` and `test`, the numbers of items.
        item: What an output is called.
        making: What is said while the text is made.
        write: Writes the text of a size into a folder: `train`, `valid` and `test` with the ending of targets, and
            whatever else the recipes name.
        ending: Of the files of targets.
        sources: The sources of the test set, a file of the folder; empty if the task itself makes a bag of each target,
            which is then scored, too.
        parts: Titles of the parts of the test set that are scored apart, by the names of their files, `test.PART`. The
            test set is its parts, one after another.
        metrics: Of the scores.
        shown_words: How long the output should be that is shown growing.
    """

    title: str
    introduction: str
    item: str
    making: str
    write: Callable[[Path, str], None]
    ending: str
    metrics: tuple[str, ...]
    shown_words: Sequence[int]
    sources: str = ""
    parts: dict[str, str] = field(default_factory=dict)


def _write_sentences(folder: Path, size: str) -> None:
    sentences = find_sentences(size)
    for split, lines in (("train", sentences.train), ("valid", sentences.valid), ("test", sentences.test)):
        atomic_write_text(folder / f"{split}.txt", "".join(f"{line}\n" for line in lines))


def find_sentences(size: str) -> Sentences:
    """Return the sentences of a size: all that are here, or some of those in the standard library."""
    if size != "tiny":
        return load_sentences()
    library = Path(sysconfig.get_path("stdlib"))
    folders = [library / name for name in TINY_FOLDERS]
    return load_sentences(folders, num_valid=TINY_HELD_OUT, num_test=TINY_HELD_OUT)


def _write_graphs(folder: Path, size: str) -> None:
    write_star_graphs(folder, SIZES[size])


TASKS = {
    "star-graph": DemoTask(
        title="Paths in star graphs",
        introduction=(
            "A star graph has arms of nodes round a centre. Two models got the edges of {train:,} such graphs as a bag "
            "of words (a>b leads from a to b) with a start and a goal, and learnt to write the path between them by "
            "insertion. In half of the graphs all edges lead outwards: the first step from the centre is a guess, each "
            "step back from the goal is forced. In the other half they lead inwards, and it is the other way round: no "
            "fixed order is good. Scores on {test:,} other graphs:"
        ),
        item="path",
        making="draw star graphs",
        write=_write_graphs,
        ending="tgt",
        metrics=("exact",),
        shown_words=range(3, 20),
        sources="test.src",
        parts={"out": "edges outwards", "in": "edges inwards"},
    ),
    "sentences": DemoTask(
        title="Word order recovery",
        introduction=(
            f"{{train:,}} sentences of {MIN_WORDS} to {MAX_WORDS} words stood in Python files that are installed here. "
            "Two models got each of them as a bag of words and learnt to write it by insertion. Scores on {test:,} "
            "other sentences:"
        ),
        item="sentence",
        making="read sentences from the Python files that are installed here",
        write=_write_sentences,
        ending="txt",
        metrics=("bleu", "exact"),
        shown_words=range(6, 11),
    ),
}
"""In the order in which `indigo demo` takes them: the quick one first."""
