"""`python -m fadiff_mapper` is the command line."""

import sys

from fadiff_mapper.cli import main

sys.exit(main())
