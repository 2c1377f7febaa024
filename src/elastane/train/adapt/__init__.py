"""A running job decides its batch and its learning-rate factor itself, from measurements."""
