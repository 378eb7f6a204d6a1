"""States by names of parameters; files of several processes are not here."""
