"""The control plane: takes jobs, asks the policy, brings its plans about, and remembers everything."""
