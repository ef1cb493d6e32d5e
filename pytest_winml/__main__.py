import sys

from pytest_winml.cli import main

sys.exit(main())
