"""How gradients of many units become one mean gradient."""
