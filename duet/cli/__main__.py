"""python -m duet.cli"""

import sys

from . import main

sys.exit(main())
