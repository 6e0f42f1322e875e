"""`python -m indigo_cli`, and with it `torchrun -m indigo_cli`, is the command `indigo`."""

import sys

from indigo_cli.cli import main

if __name__ == "__main__":
    sys.exit(main())
