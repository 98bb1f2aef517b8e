"""What goes wrong in a way that the user can mend."""


class UserError(Exception):
    """One sentence: what, where, what to do. The command line prints it and exits with 2."""
