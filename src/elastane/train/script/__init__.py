"""The script's side of training: what a training script calls, and what it loops over."""
