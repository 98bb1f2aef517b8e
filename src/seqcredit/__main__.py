"""`python -m seqcredit`: the command line."""

from seqcredit.cli import main

main()
