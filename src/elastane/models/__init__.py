"""Models of training: speed, statistical efficiency, convergence, restart cost; fitted online."""
