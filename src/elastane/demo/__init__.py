"""Demonstrates the live system: five real jobs on a small cluster of its own, two kills, and a report.

Its modules share one metaphor: the *stage* is the temporary cluster, the *cast* are the jobs, a *role* is one of them,
the *play* runs them, the *narrator* writes the lines, and the *tale* is what is kept of all that.
"""
