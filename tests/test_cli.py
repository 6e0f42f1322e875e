"""The command line: what it loads, how it ends, and that every ending reads like the contract."""

import importlib.metadata
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from indigo_cli import __version__, cli
from indigo_cli.core import console
from indigo_cli.errors import DataError, RecipeError, RunError, UsageError
from tests.conftest import Indigo

HEAVY = {"torch", "numpy", "rich", "sacrebleu", "sacremoses", "subword_nmt"}
COMMANDS = [info.callback.__name__.replace("_", "-") for info in cli.app.registered_commands if info.callback]
COMPUTING = {"train", "decode", "score", "search-orders", "demo"}


def python(script: str, *args: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a script that adds commands of its own to the program and runs it with `args`."""
    head = "import sys, os, time, typer\nfrom indigo_cli import cli\n"
    tail = "\nsys.exit(cli.main())"
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(script) + tail, *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
    )


@pytest.fixture
def add_command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., None]], None]:
    """A way to mount a command for one test."""
    monkeypatch.setattr(cli.app, "registered_commands", list(cli.app.registered_commands))

    def add(function: Callable[..., None]) -> None:
        cli.app.command()(function)

    return add


def test_the_script_is_installed() -> None:
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="indigo")
    assert entry.value == "indigo_cli.cli:main"


def test_help_and_version_load_nothing_heavy() -> None:
    lines = [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)]
    script = f"""
    for line in {lines!r}:
        assert cli.main(line) == 0
    loaded = {HEAVY!r} & set(sys.modules)
    assert not loaded, loaded
    """
    process = python(script, "--version")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert out.decode().count("Usage: indigo") == len(COMMANDS) + 1
    assert out.decode().endswith(f"indigo {__version__}\n")


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_every_command(indigo: Indigo, flag: str) -> None:
    result = indigo(flag)
    assert (result.status, result.err) == (0, "")
    assert all(f"\n  {name} " in result.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_a_seed_and_computing_ones_a_device(name: str) -> None:
    group: Any = typer.main.get_command(cli.app)
    options = {option for parameter in group.commands[name].params for option in parameter.opts}
    assert "--seed" in options
    if name in COMPUTING:
        assert {"--device", "--precision", "--threads"} <= options


@pytest.mark.parametrize(
    ("line", "what", "where", "hint"),
    [
        ([], "missing command", "indigo", "`indigo --help` lists what it takes"),
        (["evalate"], "no such command 'evalate'. Did you mean 'evaluate'?", "indigo", None),
        (["--quite"], "no such option: --quite", "indigo", "did you mean --quiet?"),
        (["--see"], "no such option: --see", "indigo", None),
        (
            ["evaluate", "h", "--refrence", "r"],
            "no such option: --refrence",
            "indigo evaluate",
            "did you mean --reference or --sentence?",
        ),
        (["evaluate", "h", "--ref", "r"], "no such option: --ref", "indigo evaluate", None),  # no guessing of prefixes
        (["evaluate"], "missing argument 'HYP...'", "indigo evaluate", "`indigo evaluate --help` lists what it takes"),
        (["evaluate", "h", "--reference"], "option '--reference' requires an argument", "indigo evaluate", None),
        (["evaluate", "h", "--reference", "r", "--seed", "x"], "invalid value for '--seed'", "indigo evaluate", None),
    ],
)
def test_usage_errors_have_the_three_lines(
    indigo: Indigo, line: list[str], what: str, where: str, hint: str | None
) -> None:
    result = indigo(*line)
    assert (result.status, result.out) == (2, "")
    first, second, third = result.err.splitlines()
    assert first.startswith(f"error: {what}")
    assert second == f"at: {where}"
    assert third.startswith("hint: ") and (hint is None or third == f"hint: {hint}")


def raising(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (UsageError("w", where="f:1", fix="x"), 2, "error: w\nat: f:1\nhint: x\n"),
        (DataError("w"), 2, "error: w\n"),
        (RunError("w", fix="x"), 1, "error: w\nhint: x\n"),
        (RecipeError([UsageError("a", where="r:1"), UsageError("b")]), 2, "error: a\nat: r:1\nerror: b\n"),
        (FileNotFoundError(2, "No such file or directory", "x"), 2, "error: No such file or directory\nat: x\n"),
        (OSError(28, "No space left on device", "x"), 1, "error: No space left on device\nat: x\n"),
        (BrokenPipeError(32, "Broken pipe"), 1, "error: Broken pipe\n"),  # a worker's pipe: stdout is well
        (MemoryError(), 1, "error: out of memory\nhint: use smaller batches or a smaller model\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (typer.Abort(), 130, "interrupted\n"),
        (typer.Exit(3), 3, ""),
        (
            ZeroDivisionError("x"),
            1,
            "error: ZeroDivisionError: x\nhint: this is a fault of indigo: run again with --debug",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_every_error_becomes_its_status_without_a_traceback(
    indigo: Indigo, add_command: Callable[[Callable[..., None]], None], error: BaseException, status: int, said: str
) -> None:
    add_command(raising(error))
    result = indigo("fail")
    assert (result.status, result.out) == (status, "")
    assert result.err.startswith(said) if said.endswith("--debug") else result.err == said


@pytest.mark.parametrize("line", [["--debug", "fail"], ["fail", "--debug"]])
def test_debug_shows_the_traceback_as_well(
    indigo: Indigo, add_command: Callable[[Callable[..., None]], None], line: list[str]
) -> None:
    add_command(raising(RunError("w")))
    result = indigo(*line)
    assert result.status == 1
    assert result.err.startswith("Traceback") and result.err.endswith("error: w\n")


@pytest.mark.parametrize("line", [["talk"], ["--quiet", "talk"], ["talk", "--quiet"], ["talk", "x", "--verbose"]])
def test_quiet_and_verbose_may_stand_anywhere(
    indigo: Indigo, add_command: Callable[[Callable[..., None]], None], line: list[str]
) -> None:
    def talk(word: str = typer.Argument("")) -> None:
        console.detail("a detail")
        console.note("a note")
        console.status("a line")
        console.warn("a warning")

    add_command(talk)
    said = indigo(*line).err.splitlines()
    usual = [] if "--quiet" in line else ["note: a note", "a line"]
    assert said == [*(["a detail"] if "--verbose" in line else []), *usual, "warning: a warning"]


def test_after_two_dashes_everything_is_an_argument(
    indigo: Indigo, add_command: Callable[[Callable[..., None]], None]
) -> None:
    def say(words: list[str]) -> None:
        typer.echo(repr(words))

    add_command(say)
    assert indigo("say", "a", "--", "--quiet", "-x.en").out == "['a', '--quiet', '-x.en']\n"


@pytest.mark.parametrize(
    ("number", "status", "said"), [(signal.SIGINT, 130, b"interrupted\n"), (signal.SIGTERM, 143, b"")]
)
def test_signals_end_a_command_after_it_has_cleaned_up(number: int, status: int, said: bytes) -> None:
    script = """
    @cli.app.command()
    def wait() -> None:
        try:
            print("ready", flush=True)
            time.sleep(60)
        finally:
            print("clean", flush=True)
    """
    process = python(script, "wait")
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (status, b"clean\n", said)


FLOOD = """
@cli.app.command()
def flood() -> None:
    for i in range(200_000):
        print(i)
"""


def test_a_reader_that_leaves_ends_the_writer_quietly() -> None:
    process = python(FLOOD, "flood")
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == b"0\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=30) == 0
    process.stderr.close()


def shell(script: str, line: str) -> subprocess.CompletedProcess[bytes]:
    """Run a script as `python` does, with a shell's redirections."""
    code = "import sys, typer\nfrom indigo_cli import cli\n" + textwrap.dedent(script) + "\nsys.exit(cli.main())"
    command = ["bash", "-c", f'"$0" -c "$1" {line}', sys.executable, code]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_below_stdout_fails() -> None:
    result = shell(FLOOD, "flood >/dev/full")
    assert (result.returncode, result.stderr) == (1, b"error: No space left on device\n")
    result = shell("@cli.app.command()\ndef one() -> None:\n    print(1)\n", "one >/dev/full")
    assert (result.returncode, result.stderr) == (1, b"error: No space left on device\n")


def test_a_closed_stdout_is_no_crash() -> None:
    result = shell("@cli.app.command()\ndef silent() -> None:\n    pass\n", "silent >&-")
    assert (result.returncode, result.stderr) == (0, b"")


LOCALES: Sequence[dict[str, str]] = (
    {"LC_ALL": "C.UTF-8"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "latin-1"},
)


@pytest.mark.parametrize("env", LOCALES, ids=["utf8", "ascii", "latin-1 streams"])
def test_text_and_names_are_utf8_whatever_the_locale(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "dată.ro").write_text("ș日\n", encoding="utf-8")
    script = """
    @cli.app.command()
    def cat(path: str) -> None:
        assert os.path.basename(path) == "dat\\u0103.ro"
        print(open(path, encoding='utf-8').read() + "\\u0103")
        cli.console.note("\\u00fc")
    """
    process = python(script, "cat", str(tmp_path / "dată.ro"), env=env)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out.decode(), err.decode()) == (0, "ș日\nă\n", "note: ü\n")


def test_python_m_is_the_command() -> None:
    line = [sys.executable, "-m", "indigo_cli", "--version"]
    assert subprocess.run(line, capture_output=True, text=True, check=True).stdout == f"indigo {__version__}\n"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    ],
)
def test_too_little_memory_is_no_fault_of_indigo(error: Exception) -> None:
    fault = cli._as_fault(error)
    assert fault.exit_code == 1 and fault.what == "out of memory" and "smaller" in fault.fix
    assert "fault of indigo" in cli._as_fault(RuntimeError("anything else")).fix
