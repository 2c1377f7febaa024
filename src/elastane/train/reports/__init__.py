"""What a training run says about itself: events, the file they are kept in, and ways to look at them.

Nothing here trains, and nothing here imports torch: a supervisor or a reader on another machine uses it too.
"""
