"""Gets machines from Ray: a warden process keeps a pilot actor on each Ray node; a pilot runs ``elastane node``."""
