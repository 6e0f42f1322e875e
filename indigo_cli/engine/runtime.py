"""Device, precision and threads of a command."""

from dataclasses import dataclass

import torch

from indigo_cli.errors import UsageError


@dataclass(frozen=True)
class Runtime:
    """Where and how a command computes.

    Args:
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        precision: `fp32` or `bf16` (autocast).
        threads: CPU threads; 0 = torch's choice.
    """

    device: str = "auto"
    precision: str = "fp32"
    threads: int = 0

    def start(self, *, local_rank: int | None = None, local_world: int = 1) -> torch.device:
        """Set the threads and return the device.

        Args:
            local_rank: Of this process among several of one machine, each of which takes a CUDA device of its own.
            local_world: How many there are; too many for the devices is said by all, since only the first is heard.

        Raises:
            UsageError: an unknown device or precision, or CUDA where there is none, or not enough.
        """
        if self.precision not in ("fp32", "bf16"):
            raise UsageError(f"unknown precision {self.precision!r}", where="--precision", fix="fp32 or bf16")
        if self.threads < 0:
            raise UsageError(f"--threads must be positive, got {self.threads}", where="--threads")
        if self.threads:
            torch.set_num_threads(self.threads)
        name = self.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        if name == "cuda" and local_rank is not None:
            if torch.cuda.device_count() < local_world:
                what = f"{local_world} processes on this machine, but {torch.cuda.device_count()} CUDA devices"
                raise UsageError(what, where="--device", fix="start one process a device, or --device cpu")
            name = f"cuda:{local_rank}"
        elif name.startswith("cuda:") and local_world > 1:
            what = f"--device {name} would put all {local_world} processes of this machine on one device"
            raise UsageError(what, where="--device", fix="--device cuda: each process takes one of its own")
        try:
            device = torch.device(name)
        except RuntimeError as error:
            raise UsageError(f"unknown device {name!r}", where="--device", fix="auto, cpu, cuda or cuda:N") from error
        if device.type not in ("cpu", "cuda"):
            raise UsageError(f"device {name!r} is not supported", where="--device", fix="auto, cpu, cuda or cuda:N")
        if device.type == "cuda" and (
            not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()
        ):
            raise UsageError(f"there is no device {name!r} here", where="--device", fix="--device cpu")
        if device.type == "cuda" and ":" in name:  # plain `cuda` is the current one
            torch.cuda.set_device(device)
        return device

    def autocast(self, device: torch.device) -> torch.autocast:
        """Return the context in which models compute."""
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16")
