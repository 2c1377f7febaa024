"""``python -m elastane`` is the same as ``elastane``."""

from elastane.cli.main import main

if __name__ == "__main__":
    main()
