"""Interfaces of other libraries on top of ``elastane.train``: scripts written for them become elastic jobs."""
