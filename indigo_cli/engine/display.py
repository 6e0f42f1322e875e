"""How a sentence grew, for the terminal: the canvas after each insertion, and the matrix R^t of relations.

Everything here is a Rich renderable that fits itself to the width it is given. Without colour the newest word stands
in brackets; with colour it is lit, and every word keeps the hue of its step, from blue (first) to orange (last).
"""

import colorsys
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.style import Style
from rich.table import Table
from rich.text import Text

from indigo_cli.core.order import absolute_positions, order_to_slots, relative_positions
from indigo_cli.data.traces_file import TraceRecord

MAX_WORD_CELLS = 16
MIN_CANVAS_CELLS = 16
CONTINUED = r"@@$"
"""Mark of a piece whose word goes on: dim, so that words can be read."""
MATRIX_KEY = "  in column i: + stands left of token i, - right of it; z_i counts the +"
BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Growth:
    """The canvas after each insertion, as a table that knows how wide it may be.

    Args:
        tokens: In surface order.
        order: Surface index of each insertion.
        rounds: Round of each insertion; -1 for words that stood before. One a step if empty.
        word_log_probs: Nats; no such column if None.
        slot_log_probs: Nats; no such column if None.
        end_log_prob: Of `<eod>`; no such row if None.
        finished: False says that the search ran out of steps.
    """

    tokens: Sequence[str]
    order: Sequence[int]
    rounds: Sequence[int] = ()
    word_log_probs: Sequence[float] | None = None
    slot_log_probs: Sequence[float] | None = None
    end_log_prob: float | None = None
    finished: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the table out; the canvas gets the cells that the other columns leave."""
        slots = order_to_slots(self.order)
        given = sum(number < 0 for number in self.rounds)
        rows = [self._row(step, slots[step], given) for step in range(given, len(slots))]
        last = self._last_row()
        headings = self._headings(given)
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="bold")
        room = options.max_width
        for heading in headings:
            cells = (row[heading].plain for row in [*rows, last] if heading in row)
            width = max(cell_len(heading), *map(cell_len, cells), 0)
            justify: JustifyMethod = "left" if heading == "word" else "right"
            table.add_column(heading, justify=justify, no_wrap=True, min_width=width)
            room -= width + 2
        table.add_column("canvas", no_wrap=True)
        room = max(room, MIN_CANVAS_CELLS)
        canvas = Canvas(self.tokens, self.order, lit=_has_colour(console))
        for slot in slots[:given]:
            canvas.insert(slot)
        if given:
            table.add_row(Text("given", "dim"), *[""] * (len(headings) - 1), canvas.line(room=room))
        for row, slot in zip(rows, slots[given:], strict=True):
            canvas.insert(slot)
            table.add_row(*(row[heading] for heading in headings), canvas.line([slot], room=room))
        if last:
            table.add_row(*(last.get(heading, "") for heading in headings), canvas.line(room=room))
        yield table

    def _headings(self, given: int) -> list[str]:
        """Return the columns before the canvas; rounds only where they differ from steps."""
        optional = {
            "round": list(self.rounds[given:]) != list(range(len(self.rounds) - given)),
            "p(word)": self.word_log_probs is not None,
            "p(slot)": self.slot_log_probs is not None,
        }
        return [name for name in ("step", "round", "word", "slot", "p(word)", "p(slot)") if optional.get(name, True)]

    def _row(self, step: int, slot: int, given: int) -> dict[str, Text]:
        """Return the cells of one insertion by heading."""
        word = clip(printable(self.tokens[self.order[step]]), MAX_WORD_CELLS)
        cells = {
            "step": Text(str(step + 1 - given), "dim"),
            "word": Text(word, hue(step, len(self.order))),
            "slot": Text.assemble(str(slot), (f"/{step}", "dim")),
        }
        if self.rounds:
            cells["round"] = Text(str(self.rounds[step]), "dim")
        if self.word_log_probs is not None:
            cells["p(word)"] = probability(self.word_log_probs[step])
        if self.slot_log_probs is not None:
            cells["p(slot)"] = probability(self.slot_log_probs[step])
        return cells

    def _last_row(self) -> dict[str, Text]:
        """Return the cells that say how it ended; none if nobody knows."""
        step = Text("end", "dim")
        if self.end_log_prob is not None:
            return {"step": step, "word": Text("<eod>", "dim"), "p(word)": probability(self.end_log_prob)}
        return {} if self.finished else {"step": step, "word": Text("out of steps", "red")}


class Canvas:
    """The sentence as far as it stands, insertion by insertion; only the words that are shown become text.

    Args:
        tokens: In surface order.
        order: Surface index of each insertion.
        lit: Mark the newest word by colour; else by brackets.
    """

    def __init__(self, tokens: Sequence[str], order: Sequence[int], *, lit: bool) -> None:
        self._words = [printable(tokens[index]) for index in order]
        self._lit = lit
        self._steps: list[int] = []
        self._widths: list[int] = []

    def insert(self, slot: int) -> None:
        """Place the next word."""
        step = len(self._steps)
        self._steps.insert(slot, step)
        self._widths.insert(slot, cell_len(self._words[step]))

    def line(self, newest: Sequence[int] = (), *, room: int) -> Text:
        """Return what stands, in at most `room` cells.

        Args:
            newest: Places of the words to mark; a line that is too long shows what stands around the first.
            room: Cells of the terminal; one long word may need more.
        """
        widths = [width + 2 * (place in newest) for place, width in enumerate(self._widths)]
        start, stop = window(widths, newest[0] if newest else 0, room)
        line = Text("… ", "dim") if start else Text()
        line.append_text(Text(" ").join(self._word(place, place in newest) for place in range(start, stop)))
        if stop < len(widths):
            line.append(" …", "dim")
        return line

    def _word(self, place: int, new: bool) -> Text:
        step = self._steps[place]
        word, style = self._words[step], hue(step, len(self._words))
        if new:
            return Text(f" {word} ", style + Style(bold=True, reverse=True)) if self._lit else Text(f"[{word}]")
        text = Text(word, style)
        text.highlight_regex(CONTINUED, "dim")
        return text


@dataclass(frozen=True)
class Rounds:
    """The canvas after each round of a system that fills many slots at once, all its new words marked.

    p(words) is the probability of all of them together; in the last row it is that of all slots being closed.
    """

    record: TraceRecord

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the table out; the canvas gets the cells that the other columns leave."""
        record, headings = self.record, ("round", "new", "p(words)")
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="bold")
        widths = [max(cell_len(heading), 6) for heading in headings]
        for heading, width in zip(headings, widths, strict=True):
            table.add_column(heading, justify="right", no_wrap=True, min_width=width)
        table.add_column("canvas", no_wrap=True)
        room = max(options.max_width - sum(widths) - 2 * len(headings), MIN_CANVAS_CELLS)
        canvas = Canvas(record.tokens, record.order, lit=_has_colour(console))
        steps = list(zip(record.rounds, record.slots, record.word_log_probs, strict=True))
        for number, group in groupby(steps, key=lambda step: step[0]):
            made = list(group)
            slots = [slot for _, slot, _ in made]
            for slot in slots:
                canvas.insert(slot)
            if number < 0:
                table.add_row(Text("given", "dim"), "", "", canvas.line(room=room))
                continue
            together = math.fsum(log_prob for _, _, log_prob in made)
            table.add_row(
                Text(str(number), "dim"), str(len(made)), probability(together), canvas.line(slots, room=room)
            )
        end = Text("end", "dim") if record.finished else Text("forced", "red")
        table.add_row(end, "", probability(math.fsum(record.close_log_probs)), canvas.line(room=room))
        yield table


def window(widths: Sequence[int], centre: int, room: int) -> tuple[int, int]:
    """Return (start, stop) of the words around `centre` that fit, with single blanks and marks of what is cut.

    The centre is always inside, however wide it is.
    """
    if not widths or sum(widths) + len(widths) - 1 <= room:
        return 0, len(widths)
    marks = 4  # "… " and " …"
    start, stop, used = centre, centre + 1, widths[centre] + marks
    grew = True
    while grew:
        grew = False
        if stop < len(widths) and used + widths[stop] + 1 <= room:
            used, stop, grew = used + widths[stop] + 1, stop + 1, True
        if start > 0 and used + widths[start - 1] + 1 <= room:
            used, start, grew = used + widths[start - 1] + 1, start - 1, True
    return start, stop


@dataclass(frozen=True)
class RelationMatrix:
    """R^t with the absolute positions z below it, as in the paper: column i holds the relations of token i.

    `+`: the row's token stands left of the column's (+1 of Eq. 3); `-`: right of it (-1); `0`: the token itself. The
    `+` of a column add up to z (Eq. 4). R only grows, so where the width ends the R of an earlier step is shown.
    """

    tokens: Sequence[str]
    order: Sequence[int]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the matrix out."""
        labels = ["<s>", "</s>", *(clip(printable(self.tokens[index]), MAX_WORD_CELLS) for index in self.order)]
        digits = len(str(len(labels) - 1))
        name_width = max(cell_len(label) for label in labels)
        fitting = (options.max_width - name_width - digits - 5) // (digits + 1)
        shown = max(2, min(len(labels), fitting))
        steps = shown - 2
        relations = relative_positions(self.order[:steps], boundaries=True)
        z = absolute_positions(self.order[:steps])
        styles = [Style(dim=True), Style(dim=True), *(hue(step, len(self.order)) for step in range(len(self.order)))]
        signs = {1: ("+", "green"), -1: ("-", "red"), 0: ("0", "dim")}
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        for _ in range(shown):
            table.add_column(justify="right", no_wrap=True, width=digits)
        table.add_row(Text(""), Text("i ="), Text(" "), *(Text(str(i), styles[i]) for i in range(shown)))
        for j in range(shown):
            cells = (Text(*signs[relations[i][j]]) for i in range(shown))
            table.add_row(Text(str(j), styles[j]), Text(labels[j], styles[j]), Text("│", "dim"), *cells)
        table.add_row(Text(""), Text("z", "bold"), Text("│", "dim"), *(Text(str(value), "bold") for value in z))
        yield Text.assemble((f"R^{steps + 1}", "bold"), (MATRIX_KEY, "dim"))
        yield Text("")
        yield table
        if shown < len(labels):
            yield Text(
                f"the first {steps} of {len(self.order)} insertions; the whole matrix needs a wider terminal", "dim"
            )


def growth(record: TraceRecord) -> RenderableType:
    """Return how a hypothesis grew: its text, and a row for each insertion."""
    facts = [f"log p {record.log_prob:.3f}", f"score {record.score:.3f}"]
    if record.merged_log_prob is not None:
        facts.append(f"log p of the string {record.merged_log_prob:.3f}")
    facts.append("finished" if record.finished else "not finished")
    head = Text.assemble((f"line {record.id}, rank {record.rank}", "bold"), ("  " + ", ".join(facts), "dim"))
    table: RenderableType = (
        Rounds(record)
        if record.close_log_probs
        else Growth(
            record.tokens,
            record.order,
            record.rounds,
            record.word_log_probs,
            record.slot_log_probs,
            record.end_log_prob,
            record.finished,
        )
    )
    return Group(head, Text(printable(record.text)), Text(""), table)


def growth_of_order(tokens: Sequence[str] | None, order: Sequence[int], *, title: str) -> RenderableType:
    """Return how an order places a target; surface indices stand for words that are not known."""
    if tokens is None:
        tokens = [str(index) for index in range(len(order))]
    return Group(Text(title, "bold"), Text(""), Growth(tokens, order))


def relations(tokens: Sequence[str] | None, order: Sequence[int]) -> RenderableType:
    """Return the matrix R^t; surface indices stand for words that are not known."""
    if tokens is None:
        tokens = [str(index) for index in range(len(order))]
    return RelationMatrix(tokens, order)


def probability(log_prob: float) -> Text:
    """Return a probability with a bar of one cell, green for sure and red for unlikely."""
    p = math.exp(min(log_prob, 0.0))
    style = "green" if p >= 0.8 else "yellow" if p >= 0.3 else "red"
    number = f"{p:.3f}" if p >= 0.0005 or p == 0.0 else f"{p:.0e}"
    return Text.assemble(number, " ", (BARS[max(math.ceil(p), round(p * 8))], style))


def hue(step: int, count: int) -> Style:
    """Return the colour of a generation step on a terminal."""
    red, green, blue = (round(part * 255) for part in step_colour(step, count, lightness=0.6))
    return Style(color=f"rgb({red},{green},{blue})")


def step_colour(step: int, count: int, *, lightness: float) -> tuple[float, float, float]:
    """Return red, green, blue in 0..1 of a generation step: from blue for the first to orange for the last."""
    share = step / max(count - 1, 1)
    return colorsys.hls_to_rgb((210 + 180 * share) % 360 / 360, lightness, 0.75)


def printable(text: str) -> str:
    """Spell out characters that cannot be seen or would steer the terminal."""
    return "".join(_spell(character) for character in text)


def _spell(character: str) -> str:
    if character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


def clip(text: str, cells: int) -> str:
    """Cut to a number of terminal cells, with a mark."""
    if cell_len(text) <= cells:
        return text
    while cell_len(text) > cells - 1:
        text = text[:-1]
    return text + "…"


def _has_colour(console: Console) -> bool:
    return console.color_system is not None and not console.no_color
