"""Reducers make one mean gradient of the gradients of many units."""
