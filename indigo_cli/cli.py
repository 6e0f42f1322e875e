"""The command line: mounts the commands, turns every way a command can end into an exit status of the contract.

Nothing here loads torch: each command imports what it needs when it runs.
"""

import io
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from indigo_cli import __version__
from indigo_cli.commands.average import average
from indigo_cli.commands.decode import decode
from indigo_cli.commands.demo import demo
from indigo_cli.commands.evaluate import evaluate
from indigo_cli.commands.preprocess import preprocess
from indigo_cli.commands.reorder import reorder
from indigo_cli.commands.score import score
from indigo_cli.commands.search_orders import search_orders
from indigo_cli.commands.show import show
from indigo_cli.commands.train import train
from indigo_cli.core import console
from indigo_cli.errors import IndigoError, PeerError, RunError, UsageError

COMMANDS: tuple[Callable[..., None], ...] = (
    preprocess,
    reorder,
    train,
    search_orders,
    decode,
    score,
    evaluate,
    show,
    average,
    demo,
)
"""In the order of work; each is named like its function."""
ANYWHERE = ("--quiet", "--verbose", "--debug")
"""Options of the whole program that may stand anywhere before `--`: nobody remembers on which side of a command."""
# Typer raises click's exceptions, older versions the package's, newer ones a copy's; both have this base class.
CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]


class Group(TyperGroup):
    """The commands, with the options of the whole program accepted after a command's name as well."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move the options of the whole program to the front."""
        end = args.index("--") if "--" in args else len(args)
        first = [arg for arg in args[:end] if arg in ANYWHERE]
        others = [arg for arg in args[:end] if arg not in ANYWHERE]
        return super().parse_args(ctx, [*first, *others, *args[end:]])


app = typer.Typer(
    name="indigo",
    cls=Group,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing Rich for help takes twice as long as everything else
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"indigo {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only warnings and errors on stderr.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="More details on stderr.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Generate sentences by inserting words in any order: train, decode, evaluate.

    --quiet, --verbose and --debug may stand anywhere on the line.
    """
    console.set_verbosity(quiet=quiet, verbose=verbose)


for _command in COMMANDS:
    app.command()(_command)


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status.

    Args:
        args: The words after `indigo`; None takes those of this process.
    """
    if args is None:
        _use_utf8()
        args = sys.argv[1:]
    before = _on_terminate(_terminate)
    console.set_verbosity()
    try:
        status = _run(list(args))
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except (Exception, KeyboardInterrupt) as error:
        if "--debug" in args:
            traceback.print_exc()
        return _report(error, args)
    finally:
        _on_terminate(before)


def _run(args: list[str]) -> int:
    command = typer.main.get_command(app)
    try:
        with command.make_context("indigo", args) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    return 0


def _report(error: BaseException, args: Sequence[str]) -> int:
    """Say on stderr what went wrong, in the three lines of the contract, and return the exit status."""
    reader_is_gone = isinstance(error, BrokenPipeError) and _reader_is_gone()
    _give_up_stdout()
    if reader_is_gone:
        return 0
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        if not console.rank():
            print("interrupted", file=sys.stderr)
        return 130
    fault = _usage_fault(error, args) if isinstance(error, CLICK_ERROR) else _as_fault(error)
    if not _said_elsewhere(fault):
        print(fault.render(), file=sys.stderr)
    return fault.exit_code


def _said_elsewhere(fault: IndigoError) -> bool:
    """Tell whether another process of the run says this: the first of this machine what a user can mend, and the one
    that failed why the others end."""
    if isinstance(fault, PeerError):
        return console.rank() > 0
    local = os.environ.get("LOCAL_RANK", "0")
    return fault.exit_code == UsageError.exit_code and console.rank() > 0 and local != "0"


def _give_up_stdout() -> None:
    """Write out what is waiting for stdout, nowhere if it takes no more: Python complains if it fails at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _as_fault(error: BaseException) -> IndigoError:
    if isinstance(error, IndigoError):
        return error
    if isinstance(error, OSError):
        kind = UsageError if isinstance(error, _USER_OS_ERRORS) else RunError
        return kind(error.strerror or str(error), where=str(error.filename or ""))
    if _out_of_memory(error):
        return RunError("out of memory", fix="use smaller batches or a smaller model")
    fix = "this is a fault of indigo: run again with --debug and report what it shows"
    return RunError(f"{type(error).__name__}: {error}", fix=fix)


def _out_of_memory(error: BaseException) -> bool:
    """Tell Python's and torch's ways to say so; torch's are told by name and text, since it is not loaded here."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    said = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, RuntimeError) and any(text in str(error) for text in said)


_USER_OS_ERRORS = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)


def _usage_fault(error: Any, args: Sequence[str]) -> IndigoError:
    """Return click's usage error as ours, with the command it concerns and the nearest known option."""
    names = {function.__name__.replace("_", "-") for function in COMMANDS}
    command = " ".join(["indigo", *[arg for arg in args if arg in names][:1]])
    if getattr(error, "ctx", None) is not None:  # some faults do not know their command
        command = error.ctx.command_path
    near = getattr(error, "possibilities", None)  # of an unknown option; its format_message() would repeat them
    what = str(error.message if near else error.format_message()).rstrip(".")
    fix = f"did you mean {' or '.join(sorted(near))}?" if near else f"`{command} --help` lists what it takes"
    return UsageError(what[:1].lower() + what[1:], where=command, fix=fix)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _on_terminate(handler: Any) -> Any:
    """Set what SIGTERM does and return what it did; None where that cannot be set: outside the main thread."""
    if handler is None or threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGTERM, handler)


def _reader_is_gone() -> bool:
    """Tell whether stdout or stderr is a pipe that nobody reads any more; the fault of any other pipe is a fault."""
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or not a file at all
            poll.register(stream.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _use_utf8() -> None:
    """Make text and file names UTF-8 whatever the locale; Python settles names as it starts, so it may start again."""
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    for stream, errors in ((sys.stdin, "strict"), (sys.stdout, "strict"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)
