"""The training scripts of the demo.  Each also runs alone: that is what its accuracy is compared with."""
