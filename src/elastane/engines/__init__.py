"""Where workers run: the contract of an engine, and the engines."""
