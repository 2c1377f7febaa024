"""The routes, one module per subject.  Each checks nothing of who asks: the table of permissions does."""
