"""`python -m mcpagg` is `mcpagg-compile`."""

import gc
import sys

from mcpagg_runtime.stdio.standard import open_standard_files, print_error


def main() -> int:
    """Run the command line; Ctrl-C may come before it is even imported."""
    open_standard_files()
    gc.disable()  # a run is short; to look for circles takes a tenth of one that asks no server
    try:
        from mcpagg.command.cli import main as run

        return run()
    except KeyboardInterrupt:
        print_error("interrupted")
        return 130


if __name__ == "__main__":
    sys.exit(main())
