"""What `decode` writes: text, n-best lists or traces. One line is formatted by one function, whoever writes it."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TextIO

from indigo_cli.core.format import Format
from indigo_cli.core.vocab import Vocabulary
from indigo_cli.data.traces_file import dump_header, dump_row, trace_row
from indigo_cli.engine.loaded_run import LoadedRun
from indigo_cli.engine.nbest import Output


def text_line(output: Output) -> str:
    """Return the text of a hypothesis as one line, without its end."""
    return output.text.replace("\n", " ")


def tsv_line(number: int, rank: int, output: Output) -> str:
    """Return id, rank, score and text (its tabs as spaces), without the line's end."""
    text = text_line(output).replace("\t", " ")
    return f"{number}\t{rank}\t{output.hypothesis.score:.6g}\t{text}"


def traces_row(number: int, rank: int, output: Output, vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the object of a traces file; the vocabulary is the target's."""
    tokens = vocabulary.decode(output.hypothesis.trace.tokens())
    return trace_row(number, rank, output.hypothesis, text=output.text, tokens=tokens, wish=output.wish)


class Writer(Protocol):
    """Writes the outputs of lines in one format; what comes before all lines, it writes when it is made."""

    def write(self, number: int, outputs: Sequence[Output]) -> None:
        """Write the list of one line; numbers rise."""

    def skip(self, number: int) -> None:
        """Go on behind a line, up to which others have written."""

    def end(self, num_lines: int) -> None:
        """Write what comes behind the last line; `num_lines` is how many the raw input has, at least."""


class _TextWriter:
    """The best text of each raw line; a line of a split that preprocessing dropped is empty."""

    def __init__(self, stream: TextIO, run: LoadedRun) -> None:
        self._stream, self._next = stream, 0

    def write(self, number: int, outputs: Sequence[Output]) -> None:
        self._stream.write("\n" * (number - self._next) + text_line(outputs[0]) + "\n")
        self.skip(number)

    def skip(self, number: int) -> None:
        self._next = number + 1

    def end(self, num_lines: int) -> None:
        self._stream.write("\n" * max(0, num_lines - self._next))


class _TsvWriter:
    def __init__(self, stream: TextIO, run: LoadedRun) -> None:
        self._stream = stream

    def write(self, number: int, outputs: Sequence[Output]) -> None:
        for rank, output in enumerate(outputs, start=1):
            self._stream.write(tsv_line(number, rank, output) + "\n")

    def skip(self, number: int) -> None:
        return

    def end(self, num_lines: int) -> None:
        return


class _TracesWriter:
    def __init__(self, stream: TextIO, run: LoadedRun) -> None:
        self._stream, self._vocabulary = stream, run.codecs.target.vocabulary
        stream.write(dump_header(run.header()) + "\n")

    def write(self, number: int, outputs: Sequence[Output]) -> None:
        for rank, output in enumerate(outputs, start=1):
            self._stream.write(dump_row(traces_row(number, rank, output, self._vocabulary)) + "\n")

    def skip(self, number: int) -> None:
        return

    def end(self, num_lines: int) -> None:
        return


WRITERS: dict[Format, Callable[[TextIO, LoadedRun], Writer]] = {
    Format.text: _TextWriter,
    Format.tsv: _TsvWriter,
    Format.jsonl: _TracesWriter,
}
