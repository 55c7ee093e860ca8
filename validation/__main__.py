"""`python -m validation`, from a checkout."""

import sys

from .cli import main

sys.exit(main())
