"""Small tools that every room may use and that know none of them: atomic files, durations, HTML pages."""
