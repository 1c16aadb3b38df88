"""`python -m mcpagg` is `mcpagg-compile`."""

import sys

from mcpagg_runtime.base.standard import complain, open_standard_files


def main() -> int:
    """Run the command line; Ctrl-C may come before it is even imported."""
    open_standard_files()
    try:
        from mcpagg.cli import main as run

        return run()
    except KeyboardInterrupt:
        complain("interrupted")
        return 130


if __name__ == "__main__":
    sys.exit(main())
