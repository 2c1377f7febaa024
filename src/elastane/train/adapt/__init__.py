"""What a running job decides for itself: its batch and its learning-rate factor, from measurements."""
