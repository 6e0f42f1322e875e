"""All benchmarks that take minutes, one after another: `make bench`, or `make bench ARGS="train small"`.

Write what they print into RESULTS.md, with date and machine.
"""

import speed

if __name__ == "__main__":
    speed.main()
