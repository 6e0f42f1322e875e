"""Run something on several processes of one group, as torchrun does, without its start-up."""

import importlib
import os
import pickle
import socket
import traceback
import warnings
from collections.abc import Callable
from typing import TypeVar

from indigo_cli.core import console

Result = TypeVar("Result")
LOADED_LATE = ("torch._dynamo", "torch.distributed.fsdp")
"""What training, and training with sharding, load when they begin: seconds that each forked process would spend."""


def on_ranks(world: int, action: Callable[[], Result]) -> list[Result | BaseException]:
    """Fork `world` processes with torchrun's environment and return what the action gave, or raised, on each of them.

    Results and exceptions travel as pickles; one that ends without an answer (killed) gives ChildProcessError.
    """
    for name in LOADED_LATE:
        importlib.import_module(name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children: list[tuple[int, int]] = []
    for rank in range(world):
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where there are threads
            child = os.fork()
        if child == 0:
            places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_PORT": port}
            os.environ.update({"MASTER_ADDR": "127.0.0.1", **{name: str(value) for name, value in places.items()}})
            console.set_verbosity()
            _answer(writer, action)
        os.close(writer)
        children.append((child, reader))
    return [_result(child, reader) for child, reader in children]


def _answer(writer: int, action: Callable[[], object]) -> None:
    """Do it, write down what came of it, and end this process; nothing of the tests around it may run on in it."""
    try:
        answer: object = action()
    except BaseException as error:
        traceback.print_exc()
        answer = error
    try:
        with os.fdopen(writer, "wb") as stream:
            pickle.dump(answer, stream)
    finally:
        os._exit(0)


def _result(child: int, reader: int) -> Result | BaseException:
    with os.fdopen(reader, "rb") as stream:
        content = stream.read()
    status = os.waitpid(child, 0)[1]
    if not content:
        return ChildProcessError(f"no answer, status {status}")
    answer: Result | BaseException = pickle.loads(content)
    return answer
