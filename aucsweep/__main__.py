"""``python -m aucsweep`` is the ``aucsweep`` command."""

from aucsweep.cli import main

main()
