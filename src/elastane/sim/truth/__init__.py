"""Ground truths: how simulated jobs really behave.  Policies never see these."""
