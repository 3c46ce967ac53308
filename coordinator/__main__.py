"""`coordinator`: the command line."""

import sys

from coordinator import cli
from emunode.process import collect_seldom


def main() -> int:
    """Run the command line of this process; its exit status."""
    collect_seldom()
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
