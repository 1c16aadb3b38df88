"""`python -m mcpagg` is `mcpagg-compile`."""

import sys

from mcpagg.cli import main

if __name__ == "__main__":
    sys.exit(main())
