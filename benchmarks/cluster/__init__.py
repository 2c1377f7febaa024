"""The cluster under cut cables and killed hosts, on hosts in a box; see ``__main__``."""
