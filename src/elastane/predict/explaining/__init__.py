"""Breaks down the time of a step by type of operator and by module, predicted and measured (after Fathom)."""

from elastane.predict.explaining.shares import By, Share, Shares, shares_of, similarity

__all__ = ["By", "Share", "Shares", "shares_of", "similarity"]
