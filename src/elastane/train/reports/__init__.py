"""Reports a training run: its events, the file they are kept in, progress display, figures and plots.

Nothing here trains, and nothing here imports torch: a supervisor or a reader on another machine uses it too.
"""
