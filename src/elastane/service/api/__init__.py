"""The HTTP API: who may ask for what, and how it is asked.  ``app.create_app`` builds it, ``server.serve`` runs it.

Nothing is imported here: a client needs the messages without the server behind them.
"""
