"""`python -m mcpagg` is `mcpagg-compile`."""

import sys


def main() -> int:
    """Run the command line; Ctrl-C may come before it is even imported."""
    try:
        from mcpagg.cli import main as run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; nothing was written\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
