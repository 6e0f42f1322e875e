"""Errors that a user can mend: what went wrong, where, and how to mend it (three lines on stderr)."""


class IndigoError(Exception):
    """A fault of input, usage or run; `cli.py` prints it and exits with `exit_code`.

    Args:
        what: What went wrong, with the values.
        where: `file:line`, a full recipe key, or a tensor name; empty if there is no place to name.
        fix: How to mend it; empty if nobody can say.
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def render(self) -> str:
        """Return the lines of the contract: `error:`, `at:`, `hint:`."""
        lines = [f"error: {self.what}"]
        if self.where:
            lines.append(f"at: {self.where}")
        if self.fix:
            lines.append(f"hint: {self.fix}")
        return "\n".join(lines)


class UsageError(IndigoError):
    """Wrong options or arguments, an output in the way, a missing file."""


class DataError(IndigoError):
    """A text, orders, traces or corpus file that cannot be used as it is."""


class CheckpointError(IndigoError):
    """A damaged, foreign or mismatched checkpoint."""


class RunError(IndigoError):
    """The run itself failed (non-finite gradients, disk full): exit 1."""

    exit_code = 1


class PeerError(RunError):
    """Another process of a run on several ended first: what it says is the cause."""


class RecipeError(IndigoError):
    """One or more faults of a recipe, reported together."""

    def __init__(self, faults: list[IndigoError]) -> None:
        super().__init__("; ".join(fault.what for fault in faults), where=faults[0].where, fix=faults[0].fix)
        self.faults = faults

    def __reduce__(self) -> tuple[type["RecipeError"], tuple[list[IndigoError]]]:
        """Pickle by the faults: exceptions are made again from their `args`, here a text."""
        return RecipeError, (self.faults,)

    def render(self) -> str:
        """Return the three lines of every fault."""
        return "\n".join(fault.render() for fault in self.faults)
