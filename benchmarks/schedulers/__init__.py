"""Published schedulers against the figures of their own simulators."""
