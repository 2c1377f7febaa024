"""How long a training run will take and what it will cost, before it starts and while it runs."""
