"""Input files by the thousand, most of them damaged, handed to the real verbs."""
